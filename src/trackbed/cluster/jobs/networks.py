"""The annotations of a pod: the networks it joins, and what a stack's own controllers read.

Kubernetes Network Custom Resource Definition De-facto Standard 1.3, section 4.1: a comma-separated list
`namespace/name@interface`, or a JSON list of mappings. The user's own networks come first, as they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, annotations_of, look
from trackbed.cluster.stacks.access import Access, PodNetwork

ANNOTATION = "k8s.v1.cni.cncf.io/networks"
_PLACE = f"metadata.annotations[{ANNOTATION}]"
_SHORT = re.compile(r"(?:(?P<namespace>[^/@\s]+)/)?(?P<name>[^/@\s]+)(?:@(?P<interface>[^/@\s]+))?")
_FEWER = "the pod starts with fewer rails than planned, and its rank is slow or fails"

Entry = dict[str, Any]


def annotate(template: Mapping, access: Access, namespace: str | None) -> Iterator[Note]:
    """Add the networks and the stack's other annotations; `namespace` is the pod's, None where it is not known."""
    yield from _networks(template, access, namespace)
    for name, value in access.annotations:
        held = look(template, "metadata", "annotations").get(name)
        if held is None:
            annotations_of(template)[name] = value
            yield Note("missing", "pod-annotation", f"annotation {name}: {value}", "the stack does not see the pod")
        elif str(held) != value:
            what = f"annotation {name} is {held!r}, the plan has {value!r}"
            yield Note(
                "different", "pod-annotation", what, "the stack treats the pod otherwise", "metadata.annotations"
            )


def _networks(template: Mapping, access: Access, namespace: str | None) -> Iterator[Note]:
    if not access.networks:
        return
    written = look(template, "metadata", "annotations").get(ANNOTATION)
    entries = parsed("" if written is None else written)
    if entries is None:
        breaks = "Multus refuses it and the pod does not start"
        yield Note("different", "pod-networks-unreadable", f"{written!r} is no list of networks", breaks, _PLACE)
        return
    placed = _placed(access.networks, entries, namespace)
    theirs = [entry for entry in entries if not any(entry is found for found in placed)]
    yield from _doubled(theirs, access.networks, namespace)
    ours = []
    for network, found in zip(access.networks, placed, strict=True):
        kept, note = _one(network, found, theirs)
        ours += [kept] if kept else []
        if note:
            yield note
    if len(ours) > sum(found is not None for found in placed):
        annotations_of(template)[ANNOTATION] = text([*theirs, *ours])


def _one(network: PodNetwork, found: Entry | None, theirs: list[Entry]) -> tuple[Entry | None, Note | None]:
    """The entry of one rail, and what there is to say about it."""
    title = f"network {network.namespace}/{network.name} as interface {network.interface}"
    if found is None:
        if any(entry.get("interface") == network.interface for entry in theirs):
            what = f"interface {network.interface} belongs to another network; {title} was left out"
            return None, Note("different", "pod-interface-taken", what, _FEWER, _PLACE)
        entry = {"name": network.name, "namespace": network.namespace, "interface": network.interface}
        return entry, Note("missing", "pod-fewer-rails-than-planned", title, _FEWER, _PLACE)
    if found.get("interface") != network.interface:
        what = f"{title} is attached as {found.get('interface', 'whatever comes next')}"
        breaks = "what finds rails by interface name looks in vain"
        return found, Note("different", "pod-interface-name", what, breaks, _PLACE)
    return found, None


def _doubled(theirs: list[Entry], networks: tuple[PodNetwork, ...], namespace: str | None) -> Iterator[Note]:
    for entry in theirs:
        if names_one(entry, networks, namespace):
            what = f"network {entry['name']} is attached more often than planned"
            yield Note("extra", "pod-network-doubled", what, "the pod takes two devices or addresses of a rail", _PLACE)


def names_one(entry: Entry, networks: tuple[PodNetwork, ...], namespace: str | None) -> bool:
    """Whether an entry of the annotation names one of the networks."""
    return any(_same(entry, network, namespace) for network in networks)


def _placed(networks: tuple[PodNetwork, ...], entries: list[Entry], namespace: str | None) -> list[Entry | None]:
    """For each of our networks the user's entry for it: those of the same interface first, then any of its name."""
    found: list[Entry | None] = [None] * len(networks)
    for exact in (True, False):
        for index, network in enumerate(networks):
            if found[index] is None:
                free = (one for one in entries if not any(one is taken for taken in found))
                found[index] = next((one for one in free if _match(one, network, namespace, exact=exact)), None)
    return found


def _match(entry: Entry, network: PodNetwork, namespace: str | None, *, exact: bool) -> bool:
    return _same(entry, network, namespace) and (not exact or entry.get("interface") == network.interface)


def _same(entry: Entry, network: PodNetwork, namespace: str | None) -> bool:
    """Whether an entry names the network; without a namespace it means the pod's own."""
    where = entry.get("namespace") or namespace or network.namespace
    return bool(entry["name"] == network.name and where == network.namespace)


def parsed(written: object) -> list[Entry] | None:
    """The networks an annotation names, None where it is no such list; `net@if` is written out."""
    value = str(written).strip()
    if not value:
        return []
    return _from_json(value) if value[0] in "[{" else _from_short(value)


def _from_json(value: str) -> list[Entry] | None:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    good = isinstance(found, list) and all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in found)
    return found if good else None


def _from_short(value: str) -> list[Entry] | None:
    found = [_SHORT.fullmatch(part.strip()) for part in value.split(",")]
    whole = [{key: text for key, text in one.groupdict().items() if text} for one in found if one]
    order = ("name", "namespace", "interface")
    return [{key: one[key] for key in order if key in one} for one in whole] if all(found) else None


def text(entries: list[Entry]) -> str:
    """Networks as the annotation's JSON, one a line."""
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]\n"
