"""Topology files of Spectrum-X, JSON: the links between hosts and leaves.

Two forms are known. The reference generator's has lists `nodes` and `links`, whose ends have attributes with numbers
from 0. NVIDIA AIR's has both below `content`; its numbers are in names, from 1: host worker-su01-h01, interface
rail1p1, leaf leaf-p1-su001-r1. Source: docs/user/spectrum-x.md of k8s-launch-kit, 2026.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from trackbed.fabric.importers.spectrum_x import Position
from trackbed.fabric.importers.tree import Tree, find_place, get_list, get_scalar, get_text, get_tree, is_text
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import YamlDocument

_AIR_INTERFACE = re.compile(r"rail([0-9]{1,3})p([0-9]{1,3})")
_NUMBER = re.compile(r"[0-9]{1,4}")


MAX_HOSTS = 20_000
"""Limit of the hosts of a topology."""


class HostLink(NamedTuple):
    """A link from a host to a leaf."""

    host: str
    interface: str
    position: Position
    place: Place


def _is_topology(document: YamlDocument) -> bool:
    """Return whether a document has the form of a topology."""
    data = document.data if isinstance(document.data, dict) else {}
    return isinstance(data.get("links"), list) or isinstance(data.get("content"), dict)


def read_topologies(documents: Iterable[YamlDocument]) -> tuple[list[HostLink], list[Problem]]:
    """Return the links of hosts to leaves in those documents that are topologies, and what cannot be read.

    Raises SpecError for a topology without a link, and beyond MAX_HOSTS.
    """
    links: list[HostLink] = []
    problems: list[Problem] = []
    for document in filter(_is_topology, documents):
        document_links, link_problems = _read_links(document)
        links += document_links
        problems += link_problems
    return links, problems


def _read_links(document: YamlDocument) -> tuple[list[HostLink], list[Problem]]:
    """Return the links of hosts to leaves, and a problem for each that cannot be read.

    Raises SpecError without a link, and beyond MAX_HOSTS.
    """
    tree = document.to_scalars()
    content = get_tree(tree, "content") if "content" in tree else {}
    reader = _LinkReader(document.find_place(()), get_tree(content, "nodes") if content else None)
    for link in get_list(content or tree, "links"):
        reader.add_link(link)
    if not reader.links:
        message = "this topology has no link from a host to a leaf"
        raise SpecError([Problem("no-links", message, place=document.find_place(())), *reader.problems])
    return reader.links, reader.problems


class _LinkReader:
    """Collects the links of a topology; `air_nodes` are the nodes of one of NVIDIA AIR."""

    def __init__(self, start: Place, air_nodes: Tree | None) -> None:
        self._start = start
        self._air_nodes = air_nodes
        self._indexes: dict[tuple[int, int, str], int] = {}
        self._counts: Counter[tuple[int, int]] = Counter()
        self._hosts: set[str] = set()
        self.links: list[HostLink] = []
        self.problems: list[Problem] = []

    def add_link(self, link: Any) -> None:  # noqa: ANN401 - JSON holds anything
        """Add a link, unless it is none between a host and a leaf."""
        ends = [end for end in link if isinstance(end, dict)] if isinstance(link, list) else []
        host = next((end for end in ends if self._is_host(end)), None)
        leaf = next((end for end in ends if end is not host), None)
        if host is None or leaf is None:
            return
        place = find_place(host) or self._start
        try:
            position = self._read_position(host, leaf)
        except ValueError as error:
            name = f"{get_text(host, 'node')} {get_text(host, 'interface')}"
            self.problems.append(Problem("bad-link", f"the link of {name} is left out: {error}", place=place))
            return
        self._hosts.add(get_text(host, "node"))
        if len(self._hosts) > MAX_HOSTS:
            raise SpecError([Problem("too-large", f"the topology has more than {MAX_HOSTS} hosts", place=place)])
        self.links.append(HostLink(get_text(host, "node"), get_text(host, "interface"), position, place))

    def _is_host(self, end: Tree) -> bool:
        if self._air_nodes is None:
            return is_text(get_tree(end, "attributes"), "role", "host")
        node = get_tree(self._air_nodes, get_text(end, "node"))
        return (
            is_text(node, "model", "host")
            or is_text(node, "emulation_type", "host")
            or bool(get_tree(node, "network_pci"))
        )

    def _read_position(self, host: Tree, leaf: Tree) -> Position:
        """Return the position of a host's end. Raises ValueError if a number is missing."""
        if self._air_nodes is not None:
            return _read_air_position(get_text(host, "node"), get_text(host, "interface"), get_text(leaf, "node"))
        attributes = get_tree(host, "attributes")
        rail = _read_number(attributes, "rail")
        unit, pod = _read_number(attributes, "su", 0), _read_number(attributes, "pod", 0)
        plane = _read_number(get_tree(leaf, "attributes"), "plane", 0)
        key = (pod, unit, get_text(host, "node"))
        if key not in self._indexes:
            self._indexes[key] = self._counts[pod, unit]
            self._counts[pod, unit] += 1
        return Position(rail, unit, self._indexes[key], pod, plane)


def _read_air_position(host: str, interface: str, leaf: str) -> Position:
    match = _AIR_INTERFACE.fullmatch(interface)
    if match is None:
        message = f"interface {interface!r} must be rail<R>p<P>"
        raise ValueError(message)
    unit, index = read_ordinal(host, "su"), read_ordinal(host, "h")
    if unit is None or index is None:
        message = f"the name {host!r} must have the parts su<S> and h<H>"
        raise ValueError(message)
    position = Position(int(match[1]) - 1, unit - 1, index - 1, (read_ordinal(host, "pod") or 1) - 1, int(match[2]) - 1)
    for part, number in (("r", position.rail), ("su", position.unit), ("p", position.plane)):
        ordinal = read_ordinal(leaf, part)
        if ordinal is not None and ordinal - 1 != number:
            message = f"the name of the leaf, {leaf!r}, contradicts it in {part}{ordinal}"
            raise ValueError(message)
    return position


def read_ordinal(name: str, prefix: str) -> int | None:
    """Return the number of a part of a name: 3 of `su` in worker-su03-h01."""
    parts = (part.removeprefix(prefix) for part in name.split("-") if part.startswith(prefix))
    return next((int(part) for part in parts if _NUMBER.fullmatch(part)), None)


def _read_number(attributes: Tree, key: str, default: int | None = None) -> int:
    scalar = get_scalar(attributes, key)
    if scalar is None and default is not None:
        return default
    text = (scalar.text if scalar else "") or ""
    if not _NUMBER.fullmatch(text):
        message = f"attributes.{key} must be a number, it is {text!r}"
        raise ValueError(message)
    return int(text)
