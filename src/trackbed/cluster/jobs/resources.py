"""What the container that uses the GPUs asks for: a device of each rail, huge pages, claims.

Extended resources need limits, whole and equal to the requests (Kubernetes, "Extended resources"); huge pages the same,
and cpu or memory beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, items, listed, look, mapping, names, place_of
from trackbed.cluster.stacks.access import Access, Claim

_NO_DEVICE = "the container gets no RDMA device of that rail, and the network attachment fails"
_NO_PAGES = "the network library finds no huge pages"

_QUANTITY = re.compile(r"([+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]))?")
_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("num", -3)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
}
"""Suffix of a quantity -> factor."""


def ask(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Add rail resources and huge pages to the container, and claims to container and pod."""
    place = f"{place_of(spec, container)}.resources"
    yield from _others(spec, container, access)
    elsewhere = {name for one in _rest(spec, container) for name in names(one)}
    for name, count in access.resources:
        if name not in elsewhere:
            yield from _resource(container, name, count, place)
    for name, quantity in access.hugepages:
        yield from _resource(container, name, quantity, place)
    yield from _needs_memory(container, access, place)
    for claim in access.claims:
        yield from _claim(spec, container, claim, place)


def _resource(container: Mapping, name: str, count: int | str, place: str) -> Iterator[Note]:
    """One resource in limits, and in requests where the user has not left them to follow the limits."""
    limit = look(container, "resources", "limits").get(name)
    request = look(container, "resources", "requests").get(name)
    if limit is None:
        held = count if request is None else request
        mapping(container, "resources", "limits")[name] = held
        if request is None:
            mapping(container, "resources", "requests")[name] = held
        breaks = _NO_PAGES if name.startswith("hugepages-") else _NO_DEVICE
        yield Note("missing", "pod-network-without-resource", f"limit {name}: {held}", breaks, f"{place}.limits")
        limit = held
    if not is_same_quantity(limit, count):
        what = f"{name} is {limit}, the plan has {count}"
        breaks = "devices and network attachments do not pair up"
        yield Note("different", "pod-fewer-rails-than-planned", what, breaks, f"{place}.limits")
    if request is not None and not is_same_quantity(request, limit):
        what = f"request {name} is {request}, its limit {limit}"
        yield Note("different", "pod-extended-resource-invalid", what, "the API refuses the pod", f"{place}.requests")


def _rest(spec: Mapping, container: Mapping) -> Iterator[Mapping]:
    """All other containers of the pod."""
    return (one for key in ("containers", "initContainers") for one in items(spec, key) if one is not container)


def _others(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Rail resources where they are no use, and GPUs where no rails come."""
    ours = [name for name, _ in access.resources]
    for one in _rest(spec, container):
        for name in dict.fromkeys(name for name in names(one) if name in ours):
            what = f"container {one.get('name')} asks for {name}, container {container.get('name')} uses the GPUs"
            yield Note("different", "pod-resource-on-wrong-container", what, "the job sees no device of that rail")
        if access.gpu_resource and access.gpu_resource in names(one):
            what = f"container {one.get('name')} asks for GPUs too; rails go to {container.get('name')} alone"
            yield Note("different", "pod-two-gpu-containers", what, "it reaches other nodes by TCP only")
    yield from _foreign(container, ours, f"{place_of(spec, container)}.resources")


def _foreign(container: Mapping, ours: list[str], place: str) -> Iterator[Note]:
    """Resources of the same rails under another prefix: another stack's."""
    ends = {name.rpartition("/")[2] for name in ours}
    for name in dict.fromkeys(names(container)):
        if "/" in name and name not in ours and name.rpartition("/")[2] in ends:
            breaks = "no node offers both, so the pod stays pending"
            yield Note("extra", "pod-resource-of-other-stack", f"{name} is not this stack's", breaks, place)


def _needs_memory(container: Mapping, access: Access, place: str) -> Iterator[Note]:
    if access.hugepages and not {"cpu", "memory"} & set(names(container)):
        what = "huge pages are asked for without cpu or memory; say how much memory the job needs"
        yield Note("different", "pod-hugepages-without-memory", what, "the API refuses the pod", place)


def _claim(spec: Mapping, container: Mapping, claim: Claim, place: str) -> Iterator[Note]:
    """A claim of the pod, and the container's use of it; the user may have named it otherwise."""
    held = {one.get("name"): one.get("resourceClaimTemplateName") for one in items(spec, "resourceClaims")}
    name = next((one for one, template in held.items() if template == claim.template), None)
    if name is None and claim.name in held:
        what = f"claim {claim.name} is not of template {claim.template}"
        yield Note(
            "different", "pod-claim-of-other-template", what, "the pod gets other devices", "spec.resourceClaims"
        )
    if name is None and claim.name not in held:
        listed(spec, "resourceClaims").append({"name": claim.name, "resourceClaimTemplateName": claim.template})
        what = f"claim {claim.name} of template {claim.template}"
        yield Note("missing", "pod-claim-missing", what, "the pod gets no rails", "spec.resourceClaims")
    name = name or claim.name
    if not any(one.get("name") == name for one in items(look(container, "resources"), "claims")):
        listed(mapping(container, "resources"), "claims").append({"name": name})
        breaks = "the devices are prepared, and the container does not get them"
        yield Note("missing", "pod-claim-unused", f"claim {name} in the container", breaks, f"{place}.claims")


def is_same_quantity(one: object, other: object) -> bool:
    """Return whether two quantities are the same number: the API server writes 5120Mi as 5Gi."""
    if str(one) == str(other):
        return True
    left, right = _parse_quantity(str(one)), _parse_quantity(str(other))
    return left is not None and left == right


def _parse_quantity(text: str) -> Decimal | None:
    found = _QUANTITY.fullmatch(text)
    if found is None or (found[3] and found[3] not in _SUFFIXES):
        return None
    return Decimal(found[1]) * Decimal(10) ** int(found[2] or 0) * (_SUFFIXES[found[3]] if found[3] else 1)
