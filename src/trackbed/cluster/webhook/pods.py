"""Review of pods: requested rails are injected, impossible requests are refused, other pods are left alone.

The same function serves the mutating and the validating review. `inject` adds missing fields and keeps the user's
fields, so it is idempotent, also if the API server invokes the webhook again after other webhooks. The last review
refuses a pod that still lacks requested rails, since it would run slowly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from trackbed.cluster.jobs import networks
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.security import describe_forbidden, read_pod_security_level
from trackbed.cluster.jobs.template import (
    Mapping,
    NotAJobError,
    ensure_annotations,
    iter_resource_names,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.jobs.volumes import SHM
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.native.choice import ANNOTATION, NO_RAILS
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace, PlannedFabric
from trackbed.cluster.webhook.patch import build_patch
from trackbed.cluster.webhook.rail_requests import FABRIC, PodRailRequest, RailRequestError, find_request, parse_rails
from trackbed.cluster.webhook.review import ReviewRequest, Verdict

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of the mirror of a static pod; no change or refusal of the mirror affects the pod."""
MAX_NETWORKS_BYTES, MAX_NETWORKS = 16384, 128
"""Limits of a pod's own networks annotation: each network is compared with each rail while other reviews wait."""

_COUNTED_FIELDS = {
    "pod-fewer-rails-than-planned": "network",
    "network-resource-not-requested": "resource",
    "pod-claim-missing": "claim",
    "pod-annotation": "annotation",
    "nccl-variable": "variable",
    "pod-host-path": "host path",
}
"""Code of a note -> the kind of field that was added; such fields are counted."""
_NAMED_FIELDS = {
    "ipc-lock-missing": "IPC_LOCK",
    "shm-missing": SHM,
    "pod-not-privileged": "privileged",
    "pod-node-selector": "node selector",
    "pod-host-network": "hostNetwork",
}
"""Code of a note -> the field that was added. Notes with other codes accompany one of these."""
_REQUIRED_CODES = (
    *("pod-fewer-rails-than-planned", "network-resource-not-requested", "pod-annotation"),
    *("pod-claim-missing", "claim-unused"),
)
"""Codes of notes about missing fields without which a pod has no rails."""


class _Grant(msgspec.Struct, frozen=True):
    """The rails that a pod gets, and the request for them."""

    request: PodRailRequest
    fabric: PlannedFabric
    rails: tuple[int, ...]
    namespace: Namespace

    def __str__(self) -> str:
        rails = ", ".join(map(str, self.rails))
        fabric = self.fabric.plan.common.fabric
        return f"rail{'s' if len(self.rails) > 1 else ''} {rails} of {fabric} by {self.fabric.stack.name}"


def decide(request: ReviewRequest, namespace: Namespace, state: ClusterState, *, last: bool = False) -> Verdict:
    """Return the verdict on a new pod. Raises ReviewError if the request contains no pod.

    With `last` the pod can no longer be changed, so it is refused if it lacks requested rails.
    """
    pod = review.decode_object(request.object)
    try:
        rail_request = _find_request(pod, namespace, state)
        if rail_request is None or rail_request.rails == NO_RAILS:
            return Verdict()
        if not _is_eligible(pod, rail_request):
            return _build_ineligible_verdict(rail_request)
        planned = _get_fabric(rail_request, state)
        rails = parse_rails(rail_request.rails, planned.plan)
        if not rail_request.by_pod and _has_rails(pod, planned.full_access, request.namespace):
            return Verdict()
        grant = _Grant(rail_request, planned, rails, namespace)
        _check_possible(pod, grant, request.namespace)
        return _inject_rails(request, pod, grant, last=last)
    except (RailRequestError, NotAJobError) as error:
        return Verdict(refusal=str(error), audit=(("refused", str(error)),))


def _find_request(pod: Mapping, namespace: Namespace, state: ClusterState) -> PodRailRequest | None:
    """Return the request for a pod's rails; None without one, or for a static pod. Raises RailRequestError."""
    annotations = read_mapping(pod, "metadata", "annotations")
    if MIRROR in annotations:
        return None
    return find_request(annotations, namespace.annotations, state.fabric_names)


def _is_eligible(pod: Mapping, request: PodRailRequest) -> bool:
    """Return whether a pod can have rails. A namespace's default does not apply to pods with hostNetwork."""
    spec = read_mapping(pod, "spec")
    is_windows = "windows" in (
        read_mapping(spec, "os").get("name"),
        read_mapping(spec, "nodeSelector").get("kubernetes.io/os"),
    )
    return not is_windows and (request.by_pod or spec.get("hostNetwork") is not True)


def _build_ineligible_verdict(request: PodRailRequest) -> Verdict:
    """Return a verdict that admits a pod unchanged, with a warning that it gets no rails."""
    if request.by_pod:
        return Verdict(warnings=(f"{request.annotation}: pods on Windows get no rails",))
    return Verdict(warnings=(f"the namespace's {request.annotation} gives no rails to a pod with hostNetwork",))


def _get_fabric(request: PodRailRequest, state: ClusterState) -> PlannedFabric:
    """Return the Fabric of a request. Raises RailRequestError if it cannot be planned."""
    if request.fabric in state.broken:
        reason = state.broken[request.fabric]
        raise RailRequestError(f"rails are asked for, and Fabric {request.fabric} cannot be: {reason}")
    return state.fabrics[request.fabric]


def _has_rails(pod: Mapping, access: Access, namespace: str) -> bool:
    """Return whether a pod requests rails by resources, networks or claims, so that no default applies."""
    spec = read_mapping(pod, "spec")
    resources = {name for name, _ in access.resources}
    containers = (container for key in ("containers", "initContainers") for container in read_mappings(spec, key))
    if any(name in resources for container in containers for name in iter_resource_names(container)):
        return True
    annotation = read_mapping(pod, "metadata", "annotations").get(networks.ANNOTATION)
    if any(networks.refers_to_any(entry, access.networks, namespace) for entry in _parse_networks(annotation)):
        return True
    templates = {template for claim in access.claims for template in (claim.template, *claim.larger_templates)}
    return any(claim.get("resourceClaimTemplateName") in templates for claim in read_mappings(spec, "resourceClaims"))


def _parse_networks(annotation: object) -> list[networks.NetworkEntry]:
    """Return the networks in a pod's own annotation. Raises RailRequestError if they are malformed or too many."""
    if not annotation:
        return []
    text = str(annotation)
    entries = networks.parse_networks(text) if len(text) <= MAX_NETWORKS_BYTES else []
    if entries is None:
        problem = "is no list of networks, so Multus would refuse the pod: write namespace/name@interface,... or JSON"
        raise RailRequestError(f"annotation {networks.ANNOTATION} {problem}")
    if len(text) > MAX_NETWORKS_BYTES or len(entries) > MAX_NETWORKS:
        problem = (
            f"has more than {MAX_NETWORKS} networks or {MAX_NETWORKS_BYTES} bytes; rails cannot be put beside so many"
        )
        raise RailRequestError(f"annotation {networks.ANNOTATION} {problem}")
    return entries


def _check_possible(pod: Mapping, grant: _Grant, namespace: str) -> None:
    """Raise RailRequestError if no change of the pod can meet its request."""
    fabric, annotation, rails = grant.fabric, grant.request.annotation, grant.rails
    access, stack, fabric_name = fabric.full_access, fabric.stack.name, fabric.plan.common.fabric
    if not fabric.get_requirements(rails).has_rails:
        raise RailRequestError(f"{annotation}: Fabric {fabric_name} is of stack {stack}, which gives pods no rails")
    if read_mapping(pod, "spec").get("hostNetwork") is True and not access.host_network:
        problem = "asks for rails, and a pod with hostNetwork: true cannot get any; take one of both away"
        raise RailRequestError(f"annotation {annotation} {problem}")
    if not any(set(rails) <= rail_set for rail_set in fabric.rail_sets):
        most = max(map(len, fabric.rail_sets), default=0)
        problem = f"no node has all of rails {', '.join(map(str, rails))}; a node of {fabric_name} has {most} at most"
        raise RailRequestError(f"annotation {annotation} asks for more than there is: {problem}")
    home = fabric.plan.kubernetes.namespace
    if access.claims and namespace != home:
        problem = f"the claim templates of Fabric {fabric_name} are in namespace {home}, and a pod can only use its own"
        raise RailRequestError(f"annotation {annotation} asks for rails in {namespace}: {problem}")
    _parse_networks(read_mapping(pod, "metadata", "annotations").get(networks.ANNOTATION))


def _inject_rails(request: ReviewRequest, pod: Mapping, grant: _Grant, *, last: bool) -> Verdict:
    """Return the verdict that adds the granted rails to a pod. Raises RailRequestError."""
    level = read_pod_security_level(grant.namespace.labels)
    requirements = grant.fabric.get_requirements(grant.rails)
    if needs := describe_forbidden(requirements.access, level):
        raise RailRequestError(
            f"stack {grant.fabric.stack.name} needs {needs}, and Pod Security level {level} of namespace "
            f"{request.namespace} forbids it; pods with rails go where the level is privileged"
        )
    # A reinvocation must find the same request, even if defaults or Fabrics have changed.
    annotations = ensure_annotations(pod)
    annotations.setdefault(ANNOTATION, grant.request.rails)
    annotations.setdefault(FABRIC, grant.request.fabric)
    notes = inject_rails(pod, requirements, request.namespace, level)
    for note in notes:
        if note.code == "hugepages-alone":
            raise RailRequestError(f"{grant}: {note.difference}")
    if last:
        return _decide_last(notes)
    patch = tuple(build_patch(review.decode_object(request.object), pod))
    return Verdict(patch, tuple(_iter_warnings(grant, notes)), tuple(_iter_audit(grant, notes)))


def _decide_last(notes: Sequence[Note]) -> Verdict:
    """Return the verdict on a pod that can no longer be changed: a refusal if it lacks rails."""
    missing = [note.difference for note in notes if note.verdict == "missing" and note.code in _REQUIRED_CODES]
    if not missing:
        return Verdict()
    problem = f"lacks {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
    remedy = "try again; if it stays so, another webhook takes it away after ours, or asks for rails too late"
    return Verdict(refusal=f"the pod asks for rails and {problem}: {remedy}")


def _iter_warnings(grant: _Grant, notes: Sequence[Note]) -> Iterator[str]:
    """Yield the warnings to the user about the injected rails."""
    if added := _summarize_added(notes):
        yield f"{grant}: added {added}"
    if grant.request.warning:
        yield grant.request.warning
    if grant.rails != tuple(range(len(grant.rails))) and not grant.fabric.distinguishes_rails:
        yield f"stack {grant.fabric.stack.name} counts rails: the pod gets {len(grant.rails)}, not certain ones"
    yield from (f"{note.difference}; {note.breaks} [{note.code}]" for note in notes if note.verdict != "missing")


def _iter_audit(grant: _Grant, notes: Sequence[Note]) -> Iterator[tuple[str, str]]:
    """Yield the audit annotations of a review: key, value."""
    request = grant.request
    yield "rails", str(grant)
    yield "asked", f"{'pod' if request.by_pod else 'namespace'} {request.annotation}: {request.rails}"
    if added := _summarize_added(notes):
        yield "added", added
    if kept := "; ".join(str(note) for note in notes if note.verdict != "missing"):
        yield "kept", kept


def _summarize_added(notes: Sequence[Note]) -> str:
    """Return the added fields as text, such as `8 networks, 8 resources, IPC_LOCK`."""
    codes = Counter(note.code for note in notes if note.verdict == "missing")
    counted = [
        f"{codes[code]} {noun}{'s' if codes[code] > 1 else ''}"
        for code, noun in _COUNTED_FIELDS.items()
        if code in codes
    ]
    return ", ".join([*counted, *(name for code, name in _NAMED_FIELDS.items() if code in codes)])
