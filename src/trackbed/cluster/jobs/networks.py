"""Annotations of a pod: the networks that it joins, and annotations for a stack's own controllers.

The networks are a comma-separated list `namespace/name@interface`, or a JSON list of mappings (Kubernetes Network
Custom Resource Definition De-facto Standard 1.3, section 4.1). New networks follow those of the user, in the notation
that the annotation has.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, ensure_annotations, read_mapping
from trackbed.cluster.stacks.access import Access, PodNetwork

ANNOTATION = "k8s.v1.cni.cncf.io/networks"
_PATH = f"metadata.annotations[{ANNOTATION}]"
_SHORT_FORM = re.compile(r"(?:(?P<namespace>[^/@\s]+)/)?(?P<name>[^/@\s]+)(?:@(?P<interface>[^/@\s]+))?")
_FEWER_RAILS = "the pod starts with fewer rails than planned, and its rank is slow or fails"

NetworkEntry = dict[str, Any]
"""An element of the networks annotation: name, and optionally namespace, interface and other fields."""


def add_annotations(template: Mapping, access: Access, namespace: str | None) -> Iterator[Note]:
    """Add the stack's networks and other annotations to a pod template, in place; yield notes.

    `namespace` is the pod's namespace, None if unknown.
    """
    yield from _add_networks(template, access, namespace)
    for name, value in access.annotations:
        current = read_mapping(template, "metadata", "annotations").get(name)
        if current is None:
            ensure_annotations(template)[name] = value
            yield Note("missing", "pod-annotation", f"annotation {name}: {value}", "the stack does not see the pod")
        elif str(current) != value:
            yield Note(
                "different",
                "pod-annotation",
                f"annotation {name} is {current!r}, the plan has {value!r}",
                "the stack treats the pod otherwise",
                "metadata.annotations",
            )


def _add_networks(template: Mapping, access: Access, namespace: str | None) -> Iterator[Note]:
    if not access.networks:
        return
    annotation = read_mapping(template, "metadata", "annotations").get(ANNOTATION)
    entries = parse_networks("" if annotation is None else annotation)
    if entries is None:
        yield Note(
            "different",
            "networks-annotation",
            f"{annotation!r} is not a list of networks",
            "Multus refuses it and the pod does not start",
            _PATH,
        )
        return
    assigned = _assign_entries(access.networks, entries, namespace)
    user_entries = [entry for entry in entries if not any(entry is other for other in assigned)]
    yield from _check_duplicate_networks(user_entries, access.networks, namespace)
    new_entries = []
    for network, assigned_entry in zip(access.networks, assigned, strict=True):
        entry, note = _check_network_entry(network, assigned_entry, user_entries)
        new_entries += [entry] if entry and entry is not assigned_entry else []
        if note:
            yield note
    if new_entries:
        ensure_annotations(template)[ANNOTATION] = append_networks(str(annotation or ""), new_entries)


def _check_network_entry(
    network: PodNetwork, assigned_entry: NetworkEntry | None, user_entries: list[NetworkEntry]
) -> tuple[NetworkEntry | None, Note | None]:
    """Return the annotation's entry for a rail's network, and a note on how it differs from the plan.

    The entry is None if a network of the user has the same interface. The note is None if the entry is as planned.
    """
    title = f"network {network.namespace}/{network.name} as interface {network.interface}"
    if assigned_entry is None:
        if any(entry.get("interface") == network.interface for entry in user_entries):
            problem = f"interface {network.interface} belongs to another network; {title} was left out"
            return None, Note("different", "interface-name-taken", problem, _FEWER_RAILS, _PATH)
        entry = {"name": network.name, "namespace": network.namespace, "interface": network.interface}
        return entry, Note("missing", "pod-fewer-rails-than-planned", title, _FEWER_RAILS, _PATH)
    if assigned_entry.get("interface") != network.interface:
        return assigned_entry, Note(
            "different",
            "interface-name",
            f"{title} is attached as {assigned_entry.get('interface', 'the next free name')}",
            "programs that look up rails by interface name do not find it",
            _PATH,
        )
    return assigned_entry, None


def _check_duplicate_networks(
    user_entries: list[NetworkEntry], networks: tuple[PodNetwork, ...], namespace: str | None
) -> Iterator[Note]:
    for entry in user_entries:
        if refers_to_any(entry, networks, namespace):
            yield Note(
                "extra",
                "pod-network-doubled",
                f"network {entry['name']} is attached more often than planned",
                "the pod takes two devices or addresses of a rail",
                _PATH,
            )


def find_excluded_networks(
    template: Mapping, excluded: tuple[PodNetwork, ...], namespace: str | None
) -> Iterator[Note]:
    """Yield notes on networks that a pod joins and that are of rails which it shall not have."""
    annotation = read_mapping(template, "metadata", "annotations").get(ANNOTATION)
    for entry in (parse_networks(annotation or "") or []) if excluded else []:
        if refers_to_any(entry, excluded, namespace):
            yield Note(
                "extra",
                "pod-rails-unused",
                f"this pod joins network {entry['name']}, which is not among its rails; remove it, or choose the rail",
                "the pod takes a device or address that it shall not use, or fails to start without the device",
                _PATH,
            )


def refers_to_any(entry: NetworkEntry, networks: tuple[PodNetwork, ...], namespace: str | None) -> bool:
    """Return whether an entry of the annotation refers to one of the networks; `namespace` is the pod's."""
    return any(_refers_to(entry, network, namespace) for network in networks)


def _assign_entries(
    networks: tuple[PodNetwork, ...], entries: list[NetworkEntry], namespace: str | None
) -> list[NetworkEntry | None]:
    """Return the user's entry for each network, or None. Entries with the planned interface are assigned first."""
    assigned: list[NetworkEntry | None] = [None] * len(networks)
    for same_interface in (True, False):
        for index, network in enumerate(networks):
            for entry in entries if assigned[index] is None else ():
                if any(entry is other for other in assigned) or not _refers_to(entry, network, namespace):
                    continue
                if entry.get("interface") == network.interface or not same_interface:
                    assigned[index] = entry
                    break
    return assigned


def _refers_to(entry: NetworkEntry, network: PodNetwork, namespace: str | None) -> bool:
    """Return whether an entry refers to the network. An entry without a namespace means the pod's own namespace."""
    entry_namespace = entry.get("namespace") or namespace or network.namespace
    return bool(entry["name"] == network.name and entry_namespace == network.namespace)


def parse_networks(annotation: object) -> list[NetworkEntry] | None:
    """Return the entries of a networks annotation in either notation; None if it is invalid."""
    value = str(annotation).strip()
    if not value:
        return []
    return _parse_json(value) if value[0] in "[{" else _parse_short_form(value)


def _parse_json(value: str) -> list[NetworkEntry] | None:
    try:
        listing = json.loads(value)
    except (ValueError, RecursionError):
        return None
    is_list_of_networks = isinstance(listing, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in listing
    )
    return listing if is_list_of_networks else None


def _parse_short_form(value: str) -> list[NetworkEntry] | None:
    matches = [_SHORT_FORM.fullmatch(part.strip()) for part in value.split(",")]
    if not all(matches):
        return None
    keys = ("name", "namespace", "interface")
    return [{key: match[key] for key in keys if match[key]} for match in matches if match]


def append_networks(annotation: str, entries: list[NetworkEntry]) -> str:
    """Return a valid networks annotation with more entries at its end, in the notation and layout that it has.

    Entries that are already there keep their places: the interfaces of those without a name are numbered by place.
    """
    text = annotation.rstrip()
    if not text or _parse_json(text) == []:
        return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]\n"
    tail = annotation[len(text) :]
    if not text.lstrip().startswith("["):
        return ",".join((text, *map(_render_short_form, entries))) + tail
    head = text.removesuffix("]").rstrip()
    end = text[len(head) :]
    line = head[head.rfind("\n") + 1 :]
    first_line = head[: head.find("{")].rpartition("\n")
    indent = first_line[2] if first_line[1] and not first_line[2].strip() else line[: len(line) - len(line.lstrip())]
    separator = f",\n{indent}" if "\n" in end or "\n" in head else ", "
    return head + "".join(f"{separator}{json.dumps(entry)}" for entry in entries) + end + tail


def _render_short_form(entry: NetworkEntry) -> str:
    namespace = f"{entry['namespace']}/" if "namespace" in entry else ""
    interface = f"@{entry['interface']}" if "interface" in entry else ""
    return f"{namespace}{entry['name']}{interface}"
