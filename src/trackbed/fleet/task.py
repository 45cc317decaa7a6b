"""The request for one host, and its time limit."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Literal

import msgspec

from trackbed.fabric.documents import to_document
from trackbed.fabric.plan.node_document import to_node_document
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.render import FORMATS
from trackbed.host.snapshot.reading import ReadingRequest
from trackbed.host.snapshot.snapshot import Wanted

Verb = Literal["diff", "apply", "undo", "boot", "reboot", "capture", "inspect", "prove", "prove-in-pod"]


class HostTask(msgspec.Struct, frozen=True):
    """The request to one host; encoded as JSON, it is the input of `node`."""

    verb: Verb
    name: str
    node: dict[str, Any] | None
    """The node document, see `fabric.plan.node_document`; None for a verb that needs no plan."""
    files: Mapping[str, Mapping[str, str]]
    """Files for the next boot, by format and path. They are rendered here, because the host has no renderer."""
    persist: str
    seconds: int
    """Time limit; after it, the host rolls back."""
    wanted: Wanted | None = None
    """What `capture` reads; None for other verbs."""
    reading: Mapping[str, Any] | None = None
    """What `inspect` reads, as the document of a `host.snapshot.reading.ReadingRequest`; None for other verbs."""
    removals: int | None = None
    """For `apply`: the number of removals that the user confirmed (see `host.transaction.fit`)."""
    repairs: Sequence[tuple[str, str]] | None = None
    """For `apply`: step and subject of the only changes to make, in place (see `ApplyOptions`)."""


def build_inspection(node: NodePlan, wanted: Wanted, lldp_seconds: float, seconds: int) -> HostTask:
    """Return the task that reads a node for its diagnosis; `seconds` is its time limit without the listening."""
    ports = {port.netdev: port.pci for port in node.ports}
    request = ReadingRequest(ports, wanted, ceil(lldp_seconds * 1000))
    limit = seconds + ceil(lldp_seconds)
    return HostTask("inspect", node.name, None, {}, "none", limit, reading=to_document(request))


def build_task(verb: Verb, node: NodePlan, persist: str, seconds: int, removals: int | None = None) -> HostTask:
    """Return the task for one node. `persist` is a name of `host.render.FORMATS`, `auto` or `none`."""
    if verb in {"boot", "reboot"}:
        return HostTask(verb, node.name, None, {}, persist, seconds)
    if verb == "undo":
        return HostTask(verb, node.name, to_node_document(node), {}, "none", seconds)
    files: dict[str, Mapping[str, str]] = {
        name: render(node) for name, render in FORMATS.items() if persist in {"auto", name}
    }
    return HostTask(verb, node.name, to_node_document(node), files, persist, seconds, removals=removals)
