"""Node groups: which hosts there are and which ports they have.

    nodes:
      - hosts: gpu-[0-63]
        ports: ["0000:18:00.0", "0000:40:00.0"]

A port is written as a PCI address, a MAC address or an interface name; or as a mapping when two of them are known.
Ports stand in rail order; `null` means that these hosts have no port on that rail.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator, model_validator

from trackbed.fabric.model.model import ANYTHING, MAC, PCI, FabricModel, InterfaceName, Mac, Pci, PciId, make_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOST_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
"""Host names become file names and Kubernetes node names, so nothing else is let in."""

MAX_NODES = 100_000
"""A range that names more hosts is a slip of the pen, and would only eat memory."""


class PortSelector(FabricModel):
    """How to recognise one PF on a host; the first of pci, mac, netdev that is given decides."""

    pci: Pci | None = None
    """PCI address with domain, for example 0000:18:00.0."""
    mac: Mac | None = None
    """Permanent MAC address, or GUID-derived hardware address of the port."""
    netdev: InterfaceName | None = None
    """Name that the kernel or udev gives the port, for example enp24s0np0."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        lowered = value.lower().replace("-", ":") if value.count("-") == 5 else value.lower()  # noqa: PLR2004 - aa-bb-cc-dd-ee-ff
        kind = "mac" if MAC.fullmatch(lowered) else "pci" if PCI.fullmatch(lowered) else "netdev"
        return {kind: value}

    @model_validator(mode="after")
    def _something_given(self) -> PortSelector:
        if not (self.pci or self.mac or self.netdev):
            raise make_error("empty-port", "a port needs one of pci, mac, netdev")
        return self

    def merge(self, other: PortSelector | None) -> PortSelector:
        """This selector, completed by what only `other` knows."""
        if other is None:
            return self
        return PortSelector.model_construct(
            pci=self.pci or other.pci, mac=self.mac or other.mac, netdev=self.netdev or other.netdev
        )


Ports = tuple[Annotated[PortSelector | None, ANYTHING], ...]


class NodeGroup(FabricModel):
    """Hosts with the same hardware."""

    hosts: str
    """Host names, ClusterShell ranges allowed: gpu-[0-63], rack[1-4]n[01-16]."""
    unit: int | None = Field(default=None, ge=0, le=4095)
    """Scalable unit (group of leaves) the hosts are cabled to. Default: units fill up in order."""
    ports: Ports | None = None
    """The ports in rail order. Default: the host already names them by names.netdev (rail0, rail1, ...)."""
    host_ports: dict[str, Ports] = Field(default_factory=dict)
    """Ports of single hosts, in rail order; completes or replaces `ports`, entry by entry. Usually their MACs."""
    nic: PciId | None = None
    """PCI vendor and device id of the ports, for example 15b3:1021 (`lspci -nn`); some stacks select by it."""
    server: str | None = None
    """A server of the catalogue (`trackbed servers`): gives `ports`, `nic` and `gpus` where they are left out."""
    gpus: int | None = Field(default=None, ge=1, le=64)
    """GPUs in a host. Default: one for each port. Must be a multiple or a divisor of the number of ports."""

    @model_validator(mode="before")
    @classmethod
    def _of_server(cls, value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get("server"), str):
            return value
        return {**_published(value["server"], value), **value}

    @field_validator("hosts")
    @classmethod
    def _readable(cls, value: str) -> str:
        for name in expand_hosts(value):
            if not HOST_NAME.fullmatch(name):
                raise make_error(
                    "bad-hosts", f"{name!r} is no host name: letters, digits, '-', '_' and '.', 253 at most"
                )
        return value

    def list_names(self) -> tuple[str, ...]:
        """All host names, in ClusterShell's order (numbers count as numbers)."""
        return tuple(expand_hosts(self.hosts))

    def list_rails(self, rails: int) -> list[int]:
        """The rails on which these hosts have a port."""
        return [rail for rail in range(rails) if self.ports is None or self.ports[rail] is not None]

    def select_ports(self, host: str, rails: int) -> Ports:
        """The selectors of one host, one for each rail."""
        group = self.ports if self.ports is not None else (None,) * rails
        own = self.host_ports.get(host)
        if own is None:
            return group
        return tuple(mine.merge(theirs) if mine else None for mine, theirs in zip(own, group, strict=True))


def _published(name: str, written: Mapping[str, object]) -> dict[str, object]:
    """Fields of a group that the catalogue knows of a server."""
    from trackbed.fabric.model.servers import load_servers  # noqa: PLC0415 - the catalogue is read only for a Fabric that names one

    found = load_servers().get(name)
    if found is None:
        close = get_close_matches(name, load_servers(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "`trackbed servers` lists all"
        raise make_error("unknown-server", f"the catalogue has no server {name!r}; {hint}")
    if found.ports is None and not (written.get("ports") or written.get("hostPorts")):
        raise make_error(
            "server-without-ports",
            f"nobody has published the PCI addresses of {name}; write its ports (`trackbed init` on one finds them)",
        )
    known = {"ports": found.ports, "nic": found.nic.id, "gpus": found.gpus.count}
    return {field: value for field, value in known.items() if value}


def expand_hosts(hosts: str) -> Iterator[str]:
    """Expand ClusterShell syntax, its @groups left out: looking them up would start the programs of its configuration.

    Raises the collected error `bad-hosts` on text it cannot read.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - 30 ms for --help

    count = sum(_at_most(term, hosts) for term in _TERMS.split(hosts) if term.strip())
    if not 0 < count <= MAX_NODES:
        raise make_error("bad-hosts", f"{hosts!r} names {count} hosts, it must be 1 to {MAX_NODES}")
    try:
        found = NodeSet(hosts, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise make_error("bad-hosts", f"{hosts!r} is no host range ({error}), write for example gpu-[0-63]") from error
    return iter(found)


_TERMS = re.compile(r",(?![^\[]*\])")
"""The commas outside brackets."""
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/[1-9][0-9]{0,8})?)?")


def _at_most(term: str, hosts: str) -> int:
    """How many hosts a term names at most; ClusterShell would fill the memory before it counts them."""
    count = 1
    for ranges in _BRACKETS.findall(term):
        spans = [_SPAN.fullmatch(part) for part in ranges.split(",")]
        if None in spans:
            raise make_error(
                "bad-hosts", f"{hosts!r} is no host range ([{ranges}] cannot be read), write gpu-[0-63,70]"
            )
        count *= sum(max(1, int(s[2] or s[1]) - int(s[1]) + 1) for s in spans if s)
    return count


def find_duplicates(groups: tuple[NodeGroup, ...]) -> Mapping[str, tuple[int, int]]:
    """Hosts that stand in two groups: name -> indexes of the groups."""
    seen: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for index, group in enumerate(groups):
        for name in group.list_names():
            if seen.setdefault(name, index) != index:
                found[name] = (seen[name], index)
    return found
