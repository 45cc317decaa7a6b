"""Review of pods: rails are injected as requested, impossible requests are refused, other pods are left alone.

The same function serves the mutating and the validating review. `inject` adds missing fields and keeps those of the
user, so it is idempotent, also when the API server reinvokes the webhook after others. The last review refuses a pod
that requests rails and lacks some, since it would run slowly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from trackbed.cluster.jobs import networks
from trackbed.cluster.jobs.inject import inject
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.security import forbidden, level_of
from trackbed.cluster.jobs.template import Mapping, NotAJobError, annotations_of, items, look, names
from trackbed.cluster.jobs.volumes import SHM
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.native.choice import ANNOTATION, NONE
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace, PlannedFabric
from trackbed.cluster.webhook.patch import build_patch
from trackbed.cluster.webhook.rail_requests import FABRIC, PodRailRequest, RailRequestError, find_request, parse_rails
from trackbed.cluster.webhook.review import ReviewRequest, Verdict

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the mirror of a static pod: changing or refusing the mirror does not affect the pod."""
NETWORKS_BYTES, NETWORKS = 16384, 128
"""Limits of the user's own networks, as each is compared with each rail while other reviews wait."""

_COUNTED = {
    "pod-fewer-rails-than-planned": "network",
    "pod-network-without-resource": "resource",
    "pod-claim-missing": "claim",
    "pod-annotation": "annotation",
    "nccl-variable": "variable",
    "pod-host-path": "host path",
}
_NAMED = {
    "pod-memlock-without-ipc-lock": "IPC_LOCK",
    "pod-shm-too-small": SHM,
    "pod-not-privileged": "privileged",
    "pod-node-selector": "node selector",
    "pod-host-network": "hostNetwork",
}
"""Added field by the code of its note; notes with other codes accompany one of these."""
_REQUIRED = (
    *("pod-fewer-rails-than-planned", "pod-network-without-resource", "pod-annotation"),
    *("pod-claim-missing", "pod-claim-unused"),
)
"""Codes of the fields without which a pod has no rails."""


class PodRefusedError(Exception):
    """A pod that cannot be admitted; the message gives the reason and the remedy."""


class _Grant(msgspec.Struct, frozen=True):
    """The rails that a pod gets, and its request."""

    request: PodRailRequest
    planned: PlannedFabric
    rails: tuple[int, ...]
    namespace: Namespace

    def __str__(self) -> str:
        rails = ", ".join(map(str, self.rails))
        fabric = self.planned.plan.common.fabric
        return f"rail{'s' if len(self.rails) > 1 else ''} {rails} of {fabric} by {self.planned.stack.name}"


def decide(request: ReviewRequest, namespace: Namespace, state: ClusterState, *, last: bool = False) -> Verdict:
    """Return the verdict on a new pod. `last`: the pod can no longer be changed, so missing rails are refused.

    Raises ReviewError where the review contains no pod.
    """
    pod = review.decode_object(request.object)
    try:
        rail_request = _find_request(pod, namespace, state)
        if rail_request is None or rail_request.rails == NONE:
            return Verdict()
        if not _is_eligible(pod, rail_request):
            return _leave_alone(rail_request)
        planned = _get_fabric(rail_request, state)
        rails = parse_rails(rail_request.rails, planned.plan)
        if not rail_request.by_pod and _has_rails(pod, planned.full_access, request.namespace):
            return Verdict()
        grant = _Grant(rail_request, planned, rails, namespace)
        _check_possible(pod, grant, request.namespace)
        return _inject_rails(request, pod, grant, last=last)
    except (PodRefusedError, RailRequestError, NotAJobError) as error:
        return Verdict(refusal=str(error), audit=(("refused", str(error)),))


def _find_request(pod: Mapping, namespace: Namespace, state: ClusterState) -> PodRailRequest | None:
    annotations = look(pod, "metadata", "annotations")
    if MIRROR in annotations:
        return None
    return find_request(annotations, namespace.annotations, {*state.fabrics, *state.broken})


def _is_eligible(pod: Mapping, request: PodRailRequest) -> bool:
    """Return whether a pod can have rails; in the host's network only by its own request."""
    spec = look(pod, "spec")
    is_windows = "windows" in (look(spec, "os").get("name"), look(spec, "nodeSelector").get("kubernetes.io/os"))
    return not is_windows and (request.by_pod or spec.get("hostNetwork") is not True)


def _leave_alone(request: PodRailRequest) -> Verdict:
    if request.by_pod:
        return Verdict(warnings=(f"{request.annotation}: pods on Windows get no rails",))
    return Verdict(warnings=(f"the namespace's {request.annotation} gives no rails to a pod in the host's network",))


def _get_fabric(request: PodRailRequest, state: ClusterState) -> PlannedFabric:
    if request.fabric in state.broken:
        reason = state.broken[request.fabric]
        raise PodRefusedError(f"rails are asked for, and Fabric {request.fabric} cannot be: {reason}")
    return state.fabrics[request.fabric]


def _has_rails(pod: Mapping, access: Access, namespace: str) -> bool:
    """Return whether a pod requests rails without annotations; the namespace's default then does not apply."""
    spec = look(pod, "spec")
    resources = {name for name, _ in access.resources}
    containers = (container for key in ("containers", "initContainers") for container in items(spec, key))
    if any(name in resources for container in containers for name in names(container)):
        return True
    annotation = look(pod, "metadata", "annotations").get(networks.ANNOTATION)
    if any(networks.names_one(entry, access.networks, namespace) for entry in _parse_networks(annotation)):
        return True
    templates = {claim.template for claim in access.claims}
    return any(claim.get("resourceClaimTemplateName") in templates for claim in items(spec, "resourceClaims"))


def _parse_networks(annotation: object) -> list[networks.Entry]:
    """Return the user's own networks. Raises PodRefusedError where they are malformed or too many."""
    if not annotation:
        return []
    text = str(annotation)
    entries = networks.parsed(text) if len(text) <= NETWORKS_BYTES else []
    if entries is None:
        problem = "is no list of networks, so Multus would refuse the pod: write namespace/name@interface,... or JSON"
        raise PodRefusedError(f"annotation {networks.ANNOTATION} {problem}")
    if len(text) > NETWORKS_BYTES or len(entries) > NETWORKS:
        problem = f"has more than {NETWORKS} networks or {NETWORKS_BYTES} bytes; rails cannot be put beside so many"
        raise PodRefusedError(f"annotation {networks.ANNOTATION} {problem}")
    return entries


def _check_possible(pod: Mapping, grant: _Grant, namespace: str) -> None:
    """Raise PodRefusedError where the request cannot be met by any change of the pod."""
    planned, annotation, rails = grant.planned, grant.request.annotation, grant.rails
    access, stack, fabric = planned.full_access, planned.stack.name, planned.plan.common.fabric
    if not planned.get_requirements(rails).has_rails:
        raise PodRefusedError(f"{annotation}: Fabric {fabric} is of stack {stack}, which gives pods no rails")
    if look(pod, "spec").get("hostNetwork") is True and not access.host_network:
        problem = "asks for rails, and a pod with hostNetwork: true cannot get any; take one of both away"
        raise PodRefusedError(f"annotation {annotation} {problem}")
    if not any(set(rails) <= rail_set for rail_set in planned.rail_sets):
        most = max(map(len, planned.rail_sets), default=0)
        problem = f"no node has all of rails {', '.join(map(str, rails))}; a node of {fabric} has {most} at most"
        raise PodRefusedError(f"annotation {annotation} asks for more than there is: {problem}")
    home = planned.plan.kubernetes.namespace
    if access.claims and namespace != home:
        problem = f"the claim templates of Fabric {fabric} are in namespace {home}, and a pod can only use its own"
        raise PodRefusedError(f"annotation {annotation} asks for rails in {namespace}: {problem}")
    _parse_networks(look(pod, "metadata", "annotations").get(networks.ANNOTATION))


def _inject_rails(request: ReviewRequest, pod: Mapping, grant: _Grant, *, last: bool) -> Verdict:
    level = level_of(grant.namespace.labels)
    requirements = grant.planned.get_requirements(grant.rails)
    if needs := forbidden(requirements.access, level):
        raise PodRefusedError(
            f"stack {grant.planned.stack.name} needs {needs}, and Pod Security level {level} of namespace "
            f"{request.namespace} forbids it; pods with rails go where the level is privileged"
        )
    annotations = annotations_of(pod)  # a reinvocation must find this request, even if defaults or Fabrics change
    annotations.setdefault(ANNOTATION, grant.request.rails)
    annotations.setdefault(FABRIC, grant.request.fabric)
    notes = inject(pod, requirements, request.namespace, level)
    for note in notes:
        if note.code == "pod-hugepages-without-memory":
            raise PodRefusedError(f"{grant}: {note.what}")
    if last:
        return _decide_last(notes)
    patch = tuple(build_patch(review.decode_object(request.object), pod))
    return Verdict(patch, tuple(_iter_warnings(grant, notes)), tuple(_iter_audit(grant, notes)))


def _decide_last(notes: Sequence[Note]) -> Verdict:
    """Return the verdict on a pod that can no longer be changed; other missing fields were reported before."""
    missing = [note.what for note in notes if note.verdict == "missing" and note.code in _REQUIRED]
    if not missing:
        return Verdict()
    problem = f"lacks {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
    remedy = "try again; if it stays so, another webhook takes it away after ours, or asks for rails too late"
    return Verdict(refusal=f"the pod asks for rails and {problem}: {remedy}")


def _iter_warnings(grant: _Grant, notes: Sequence[Note]) -> Iterator[str]:
    if added := _summarize_added(notes):
        yield f"{grant}: added {added}"
    if grant.request.warning:
        yield grant.request.warning
    if grant.rails != tuple(range(len(grant.rails))) and not grant.planned.distinguishes_rails:
        yield f"stack {grant.planned.stack.name} counts rails: the pod gets {len(grant.rails)}, not certain ones"
    yield from (f"{note.what}; {note.breaks} [{note.code}]" for note in notes if note.verdict != "missing")


def _iter_audit(grant: _Grant, notes: Sequence[Note]) -> Iterator[tuple[str, str]]:
    request = grant.request
    yield "rails", str(grant)
    yield "asked", f"{'pod' if request.by_pod else 'namespace'} {request.annotation}: {request.rails}"
    if added := _summarize_added(notes):
        yield "added", added
    if kept := "; ".join(str(note) for note in notes if note.verdict != "missing"):
        yield "kept", kept


def _summarize_added(notes: Sequence[Note]) -> str:
    """Return the added fields, such as `8 networks, 8 resources, IPC_LOCK`."""
    codes = Counter(note.code for note in notes if note.verdict == "missing")
    counted = [
        f"{codes[code]} {noun}{'s' if codes[code] > 1 else ''}" for code, noun in _COUNTED.items() if code in codes
    ]
    return ", ".join([*counted, *(name for code, name in _NAMED.items() if code in codes)])
