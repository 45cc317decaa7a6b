"""What becomes of a pod: it is given the rails it asks for, refused where that cannot work, or left alone.

The same function answers the mutating and the validating review. `inject` puts on the pod what is missing and keeps
what the user wrote, so a second look changes nothing, also when the API server asks again after other webhooks. When
all of them are done, a pod that was promised rails and lacks some is refused rather than run slowly.
"""

from __future__ import annotations

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
from trackbed.cluster.webhook.asked import FABRIC, Ask, AskError, asked, rails
from trackbed.cluster.webhook.known import Known, Namespace, Planned
from trackbed.cluster.webhook.patch import difference
from trackbed.cluster.webhook.review import ReviewRequest, Verdict

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of what a kubelet tells of a static pod: changing or refusing it changes nothing on the node."""
NETWORKS_BYTES, NETWORKS = 16384, 128
"""The user's own networks at most: comparing each with each rail takes a time that others would wait."""

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
"""What was added, by the code of its note; other codes only go with one of these."""
_RAILS = (
    *("pod-fewer-rails-than-planned", "pod-network-without-resource", "pod-annotation"),
    *("pod-claim-missing", "pod-claim-unused"),
)
"""What a pod has no rails without."""


class PodRefusedError(Exception):
    """A pod that cannot be let in; the message says why, and what to do."""


def decide(request: ReviewRequest, namespace: Namespace, known: Known, *, last: bool = False) -> Verdict:
    """What becomes of a new pod. `last`: nothing changes it any more, so what it lacks it will not get.

    Raises ReviewError where the review has no pod.
    """
    pod = review.mapping(request.object)
    try:
        ask = _ask(pod, namespace, known)
        if ask is None or ask.rails == NONE:
            return Verdict()
        if not _can_have(pod, ask):
            return _left_alone(ask)
        planned = _planned(ask, known)
        chosen = rails(ask.rails, planned.plan)
        if not ask.own and _carries(pod, planned.whole, request.namespace):
            return Verdict()
        _refuse(pod, ask, planned, chosen, request.namespace)
        return _given(request, pod, _Gift(ask, planned, chosen, namespace), last=last)
    except (PodRefusedError, AskError, NotAJobError) as error:
        return Verdict(refusal=str(error), audit=(("refused", str(error)),))


class _Gift(msgspec.Struct, frozen=True):
    """What a pod gets, and why."""

    ask: Ask
    planned: Planned
    rails: tuple[int, ...]
    namespace: Namespace

    def __str__(self) -> str:
        named = ", ".join(map(str, self.rails))
        fabric = self.planned.plan.common.fabric
        return f"rail{'s' if len(self.rails) > 1 else ''} {named} of {fabric} by {self.planned.stack.name}"


def _ask(pod: Mapping, namespace: Namespace, known: Known) -> Ask | None:
    own = look(pod, "metadata", "annotations")
    if MIRROR in own:
        return None
    return asked(own, namespace.annotations, {*known.fabrics, *known.broken})


def _can_have(pod: Mapping, ask: Ask) -> bool:
    """Whether a pod is one of those that may get rails by default, or that asks for itself."""
    spec = look(pod, "spec")
    return not _is_windows(spec) and (ask.own or spec.get("hostNetwork") is not True)


def _is_windows(spec: Mapping) -> bool:
    return "windows" in (look(spec, "os").get("name"), look(spec, "nodeSelector").get("kubernetes.io/os"))


def _left_alone(ask: Ask) -> Verdict:
    if ask.own:
        return Verdict(warnings=(f"{ask.annotation}: pods on Windows get no rails",))
    return Verdict(warnings=(f"the namespace's {ask.annotation} gives no rails to a pod in the host's network",))


def _planned(ask: Ask, known: Known) -> Planned:
    if ask.fabric in known.broken:
        raise PodRefusedError(f"rails are asked for, and Fabric {ask.fabric} cannot be: {known.broken[ask.fabric]}")
    return known.fabrics[ask.fabric]


def _carries(pod: Mapping, whole: Access, namespace: str) -> bool:
    """Whether a pod asks for some rails in other ways than by annotation: then it has said what it wants."""
    spec = look(pod, "spec")
    ours = {name for name, _ in whole.resources}
    containers = (one for key in ("containers", "initContainers") for one in items(spec, key))
    if any(name in ours for one in containers for name in names(one)):
        return True
    written = look(pod, "metadata", "annotations").get(networks.ANNOTATION)
    if any(networks.names_one(one, whole.networks, namespace) for one in _entries(written)):
        return True
    templates = {claim.template for claim in whole.claims}
    return any(one.get("resourceClaimTemplateName") in templates for one in items(spec, "resourceClaims"))


def _entries(written: object) -> list[networks.Entry]:
    """The user's own networks. Raises PodRefusedError where they are none, or too many."""
    if not written:
        return []
    text = str(written)
    found = networks.parsed(text) if len(text) <= NETWORKS_BYTES else []
    if found is None:
        told = "is no list of networks, so Multus would refuse the pod: write namespace/name@interface,... or JSON"
        raise PodRefusedError(f"annotation {networks.ANNOTATION} {told}")
    if len(text) > NETWORKS_BYTES or len(found) > NETWORKS:
        told = f"has more than {NETWORKS} networks or {NETWORKS_BYTES} bytes; rails cannot be put beside so many"
        raise PodRefusedError(f"annotation {networks.ANNOTATION} {told}")
    return found


def _refuse(pod: Mapping, ask: Ask, planned: Planned, chosen: tuple[int, ...], namespace: str) -> None:
    """What cannot work, whatever is put on the pod. Raises PodRefusedError."""
    access, stack, fabric = planned.whole, planned.stack.name, planned.plan.common.fabric
    if not planned.wanted(chosen).has_rails:
        raise PodRefusedError(f"{ask.annotation}: Fabric {fabric} is of stack {stack}, which gives pods no rails")
    if look(pod, "spec").get("hostNetwork") is True and not access.host_network:
        told = "asks for rails, and a pod with hostNetwork: true cannot get any; take one of both away"
        raise PodRefusedError(f"annotation {ask.annotation} {told}")
    if not any(set(chosen) <= rails for rails in planned.on_nodes):
        most = max(map(len, planned.on_nodes), default=0)
        told = f"no node has all of rails {', '.join(map(str, chosen))}; a node of {fabric} has {most} at most"
        raise PodRefusedError(f"annotation {ask.annotation} asks for more than there is: {told}")
    if access.claims and namespace != planned.plan.kubernetes.namespace:
        home = planned.plan.kubernetes.namespace
        told = f"the claim templates of Fabric {fabric} are in namespace {home}, and a pod can only use its own"
        raise PodRefusedError(f"annotation {ask.annotation} asks for rails in {namespace}: {told}")
    _entries(look(pod, "metadata", "annotations").get(networks.ANNOTATION))


def _given(request: ReviewRequest, pod: Mapping, gift: _Gift, *, last: bool) -> Verdict:
    level = level_of(gift.namespace.labels)
    wanted = gift.planned.wanted(gift.rails)
    needs = forbidden(wanted.access, level)
    if needs is not None:
        told = f"stack {gift.planned.stack.name} needs {needs}, and Pod Security level {level} of namespace"
        raise PodRefusedError(
            f"{told} {request.namespace} forbids it; pods with rails go where the level is privileged"
        )
    _write_down(pod, gift.ask)
    notes = inject(pod, wanted, request.namespace, level)
    for note in notes:
        if note.code == "pod-hugepages-without-memory":
            raise PodRefusedError(f"{gift}: {note.what}")
    if last:
        return _final(notes)
    patch = tuple(difference(review.mapping(request.object), pod))
    return Verdict(patch, tuple(_warnings(gift, notes)), tuple(_audit(gift, notes)))


def _write_down(pod: Mapping, ask: Ask) -> None:
    """What a pod was given by default, or by Spiderpool's annotation, it says itself from now on.

    The Fabric too: asked again it gets the same, also when the cluster has a second one by then.
    """
    annotations = annotations_of(pod)
    annotations.setdefault(ANNOTATION, ask.rails)
    annotations.setdefault(FABRIC, ask.fabric)


def _final(notes: Sequence[Note]) -> Verdict:
    """The verdict on a pod that stays as it is. What it merely lacks was said before."""
    lacks = [note.what for note in notes if note.verdict == "missing" and note.code in _RAILS]
    if lacks:
        told = f"lacks {lacks[0]}" + (f" and {len(lacks) - 1} more" if len(lacks) > 1 else "")
        remedy = "try again; if it stays so, another webhook takes it away after ours, or asks for rails too late"
        return Verdict(refusal=f"the pod asks for rails and {told}: {remedy}")
    return Verdict()


def _warnings(gift: _Gift, notes: Sequence[Note]) -> Iterator[str]:
    added = _added(notes)
    if added:
        yield f"{gift}: added {added}"
    if gift.ask.warning:
        yield gift.ask.warning
    if gift.rails != tuple(range(len(gift.rails))) and not gift.planned.tells_rails_apart:
        yield f"stack {gift.planned.stack.name} counts rails: the pod gets {len(gift.rails)}, not certain ones"
    yield from (f"{note.what}; {note.breaks} [{note.code}]" for note in notes if note.verdict != "missing")


def _audit(gift: _Gift, notes: Sequence[Note]) -> Iterator[tuple[str, str]]:
    yield "rails", str(gift)
    yield "asked", f"{'pod' if gift.ask.own else 'namespace'} {gift.ask.annotation}: {gift.ask.rails}"
    added = _added(notes)
    if added:
        yield "added", added
    kept = "; ".join(str(note) for note in notes if note.verdict != "missing")
    if kept:
        yield "kept", kept


def _added(notes: Sequence[Note]) -> str:
    """What was added: 8 networks, 8 resources, IPC_LOCK."""
    codes = Counter(note.code for note in notes if note.verdict == "missing")
    many = [f"{codes[code]} {word}{'s' if codes[code] > 1 else ''}" for code, word in _COUNTED.items() if code in codes]
    return ", ".join([*many, *(word for code, word in _NAMED.items() if code in codes)])
