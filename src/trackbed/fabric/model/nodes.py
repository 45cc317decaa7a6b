"""Node groups: hosts and their ports.

    nodes:
      - hosts: gpu-[0-63]
        ports: ["0000:18:00.0", "0000:40:00.0"]

A port is a PCI address, a MAC address or an interface name, or a mapping of several of them. Ports are in rail order;
`null` means that these hosts have no port on that rail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from trackbed.fabric.bounds import GPUS
from trackbed.fabric.model.host_terms import iter_terms
from trackbed.fabric.model.model import ANYTHING, FabricModel, InterfaceName, Mac, Pci, PciId, make_error
from trackbed.fabric.text_syntax import HOST_NAME, MAC, PCI

MAX_NODES = 100_000
"""Hosts of a Fabric; more are a typing error, and would exhaust the memory."""
MAX_PORTS = 800_000
"""Ports of a Fabric, hosts times rails: they are planned within 10 s and 512 MiB of memory."""
_SHOWN_CHARACTERS = 60
"""Characters of a host range in a message; a range may have 128 KiB."""


class PortSelector(FabricModel):
    """Selector of a PF on a host; the first of pci, mac, netdev that is set decides.

    Example:
        pci: "0000:18:00.0"
        mac: b8:3f:d2:00:00:01
        netdev: enp24s0np0
    """

    pci: Pci | None = None
    """PCI address with domain, for example 0000:18:00.0."""
    mac: Mac | None = None
    """Permanent MAC address, or GUID-derived hardware address of the port."""
    netdev: InterfaceName | None = None
    """Interface name by the kernel or udev, for example enp24s0np0."""

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        lowered = value.lower().replace("-", ":") if value.count("-") == 5 else value.lower()  # noqa: PLR2004 - aa-bb-cc-dd-ee-ff
        kind = "mac" if MAC.fullmatch(lowered) else "pci" if PCI.fullmatch(lowered) else "netdev"
        return {kind: value}

    @model_validator(mode="after")
    def _check_not_empty(self) -> PortSelector:
        if not (self.pci or self.mac or self.netdev):
            raise make_error("empty-port", "a port needs one of pci, mac, netdev")
        return self

    def keeps_name(self, *, keep: bool) -> bool:
        """Return whether the port keeps its present name: all ports do, or it is selected by name only."""
        return self.netdev is not None and (keep or not (self.pci or self.mac))

    def merge(self, other: PortSelector | None) -> PortSelector:
        """Return this selector, completed by the fields of `other`."""
        if other is None:
            return self
        return PortSelector.model_construct(
            pci=self.pci or other.pci, mac=self.mac or other.mac, netdev=self.netdev or other.netdev
        )


Ports = tuple[Annotated[PortSelector | None, ANYTHING], ...]


class NodeGroup(FabricModel):
    """Hosts with the same hardware.

    Example:
        hosts: gpu-[0-31]
        unit: 0
        server: hgx-h100-8gpu
        ports: ["0000:18:00.0", "0000:3b:00.0"]
        hostPorts:
          gpu-7: ["b8:3f:d2:00:07:01", "b8:3f:d2:00:07:02"]
        nic: 15b3:1021
        gpus: 8
    """

    hosts: str
    """Host names, ClusterShell ranges allowed: gpu-[0-63], rack[1-4]n[01-16]."""
    unit: int | None = Field(default=None, ge=0, le=4095)
    """Scalable unit (group of leaves) of the hosts. Default: units are filled in order."""
    ports: Ports | None = None
    """The ports in rail order. Default: the host already names them by names.netdev (rail0, rail1, ...)."""
    host_ports: dict[str, Ports] = Field(default_factory=dict)
    """Ports of single hosts, in rail order; each entry completes or replaces that of `ports`. Usually their MACs."""
    nic: PciId | None = None
    """PCI vendor and device id of the ports, for example 15b3:1021 (`lspci -nn`); some stacks select by it."""
    server: str | None = None
    """A server of the catalogue (`trackbed servers`): the default of `ports`, `nic` and `gpus`."""
    gpus: int | None = Field(default=None, ge=GPUS.low, le=GPUS.high)
    """GPUs in a host. Default: one for each port. Must be a multiple or a divisor of the number of ports."""

    @model_validator(mode="before")
    @classmethod
    def _add_server_fields(cls, value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get("server"), str):
            return value
        return {**_load_server_fields(value["server"], value), **value}

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, value: str) -> str:
        for name in expand_hosts(value):
            if not HOST_NAME.fullmatch(name):
                raise _build_name_error(name)
        return value

    def list_names(self) -> tuple[str, ...]:
        """Return all host names in ClusterShell's order (numbers sort as numbers)."""
        return tuple(expand_hosts(self.hosts))

    def list_rails(self, rails: int) -> list[int]:
        """Return the rails on which these hosts have a port."""
        return [rail for rail in range(rails) if self.ports is None or self.ports[rail] is not None]

    def select_ports(self, host: str, rails: int) -> Ports:
        """Return the selectors of a host, one for each rail."""
        group = self.ports if self.ports is not None else (None,) * rails
        host_ports = self.host_ports.get(host)
        if host_ports is None:
            return group
        return tuple(
            host_port.merge(group_port) if host_port else None
            for host_port, group_port in zip(host_ports, group, strict=True)
        )


def _load_server_fields(server_name: str, group: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a group that the catalogue provides for a server."""
    from trackbed.fabric.model.servers import load_servers  # noqa: PLC0415 - read on demand

    server = load_servers().get(server_name)
    if server is None:
        matches = get_close_matches(server_name, load_servers(), n=1)
        hint = f"did you mean {matches[0]!r}?" if matches else "`trackbed servers` lists all"
        raise make_error("unknown-server", f"the catalogue has no server {server_name!r}; {hint}")
    if server.ports is None and not (group.get("ports") or group.get("hostPorts")):
        raise make_error(
            "server-without-ports",
            f"the PCI addresses of {server_name} are not published; write its ports (run `trackbed init` on one)",
        )
    fields = {"ports": server.ports, "nic": server.nic.id, "gpus": server.gpus.count}
    return {field: value for field, value in fields.items() if value}


def expand_hosts(hosts: str) -> Iterator[str]:
    """Expand ClusterShell syntax without its @groups, whose lookup would run programs of its configuration.

    Raises the pydantic error `bad-hosts` for malformed text.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - 30 ms for --help

    if not hosts.isascii():  # ClusterShell reads digits of any script as numbers
        raise _build_name_error(hosts)
    for ranges in _BRACKETS.findall(hosts):
        if not all(map(_SPAN.fullmatch, ranges.split(","))):
            span = _shorten(f"[{ranges}]", quoted=False)
            message = f"{_shorten(hosts)} is no host range ({span} cannot be read), write gpu-[0-63,70]"
            raise make_error("bad-hosts", message)
    count = estimate_count(hosts)
    if not 0 < count <= MAX_NODES:
        raise make_error("bad-hosts", f"{_shorten(hosts)} names {count} hosts, it must be 1 to {MAX_NODES}")
    try:
        nodes = NodeSet(hosts, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        reason = _shorten(str(error), quoted=False)
        raise make_error(
            "bad-hosts", f"{_shorten(hosts)} is no host range ({reason}), write for example gpu-[0-63]"
        ) from error
    return iter(nodes)


def _build_name_error(name: str) -> PydanticCustomError:
    return make_error("bad-hosts", f"{_shorten(name)} is no host name: letters, digits, '-', '_' and '.', 253 at most")


_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_MAX_ESTIMATE = 10**18
"""Bound of an estimate: thousands of brackets would make a number of thousands of digits."""
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/[1-9][0-9]{0,8})?)?")


def estimate_count(hosts: str) -> int:
    """Return an upper bound of the hosts in a range; ClusterShell would exhaust the memory before counting them.

    Malformed brackets count as one host.
    """
    return min(_MAX_ESTIMATE, sum(_estimate_term(term) for term in iter_terms(hosts)))


def _estimate_term(term: str) -> int:
    count = 1
    for ranges in _BRACKETS.findall(term):
        spans = [_SPAN.fullmatch(part) for part in ranges.split(",")]
        count *= sum(max(1, int(span[2] or span[1]) - int(span[1]) + 1) for span in spans if span)
        if count > _MAX_ESTIMATE:
            return _MAX_ESTIMATE
    return count


def _shorten(text: str, *, quoted: bool = True) -> str:
    """Return a text for a message, quoted, with an ellipsis for the end of a long one."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return repr(shown) if quoted else shown


def map_duplicates(groups: tuple[NodeGroup, ...]) -> Mapping[str, tuple[int, int]]:
    """Return each host that is in two groups, with the indexes of these groups."""
    first_groups: dict[str, int] = {}
    duplicates: dict[str, tuple[int, int]] = {}
    for index, group in enumerate(groups):
        for name in group.list_names():
            if first_groups.setdefault(name, index) != index:
                duplicates[name] = (first_groups[name], index)
    return duplicates
