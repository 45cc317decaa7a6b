"""Comparison of a switch's configuration with the planned settings of its hosts.

A single mismatch can lose packets under load, and its symptoms on the host rarely point to the switch. Mismatches are
in causal order: missing port, address or VLAN, BGP policy, MTU, class, PFC, ECN, then congestion notifications.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.leaf import Leaf, LeafPort, Uplink
from trackbed.switches.port_config import PortConfig, Treatment

_MAX_NAMED_PORTS = 3
"""Maximum number of ports that a mismatch names; the remaining ones are counted."""
_TOGGLED_CODES = ("pfc", "ecn")
"""Codes of settings that have one fix to turn them on and another to turn them off."""


class Mismatch(msgspec.Struct, frozen=True):
    """One setting that differs between a switch and its hosts."""

    code: str
    where: str
    """The leaf, and its ports or VLAN."""
    subject: str = msgspec.field(name="what")
    host: str
    switch: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.subject}: hosts {self.host}, switch {self.switch}; {self.fix} [{self.code}]"


class PortMismatch(msgspec.Struct, frozen=True):
    """A mismatch of one port, before ports with the same mismatch are merged."""

    code: str
    subject: str
    host: str
    switch: str
    values: tuple[tuple[str, str], ...] = ()
    """(placeholder, value) of the fix, other than port, MTU and QoS."""


def compare_leaf(
    leaf: Leaf,
    read_port: Callable[[str], PortConfig | None],
    read_gateways: Callable[[int], frozenset[str]],
    fixes: Mapping[str, str],
    discarding_peers: frozenset[str] = frozenset(),
) -> list[Mismatch]:
    """Return the mismatches between a leaf and its switch's configuration.

    `read_port` reads the settings of a port by its name, `read_gateways` the addresses of a VLAN interface by its
    number. `fixes` has the fix for each code. `discarding_peers` are the BGP neighbours, by address or port, whose
    routes the switch discards.
    """
    groups: dict[PortMismatch, list[str]] = {}
    configs = {port.name: read_port(port.name) for port in leaf.ports}
    for port in leaf.ports:
        for mismatch in _compare_port(leaf, port, configs[port.name]):
            groups.setdefault(mismatch, []).append(port.name)
    for uplink in leaf.uplinks:
        for mismatch in _compare_uplink(leaf, uplink, read_port(uplink.name), discarding_peers):
            groups.setdefault(mismatch, []).append(uplink.name)
    for mismatch, name in _compare_vlans(leaf, configs, read_gateways):
        groups.setdefault(mismatch, []).append(name)
    return [_merge_port_mismatches(leaf, mismatch, names, fixes) for mismatch, names in groups.items()]


def _compare_port(leaf: Leaf, port: LeafPort, config: PortConfig | None) -> Iterator[PortMismatch]:
    if config is None:
        yield PortMismatch("no-port", "the switch has no such port", "are on it", "does not know it")
        return
    for address in port.addresses:
        if address not in config.addresses:
            yield _build_address_mismatch(f"the gateway of {port.node}", f"use {address}", address, config)
    if port.vlan and not config.vlan:
        values = (("vlan", str(port.vlan)),)
        yield PortMismatch("vlan", "a bridged rail", "expect an untagged VLAN", "has none", values)
    yield from _compare_mtu_and_qos(leaf, config)


def _compare_uplink(
    leaf: Leaf, uplink: Uplink, config: PortConfig | None, discarding_peers: frozenset[str]
) -> Iterator[PortMismatch]:
    if config is None:
        yield PortMismatch("no-port", "the switch has no such port", "need it as an uplink", "does not know it")
        return
    if uplink.address and uplink.address not in config.addresses:
        yield _build_address_mismatch("an uplink", f"need {uplink.address}", uplink.address, config)
    if leaf.is_routed and (uplink.spine or uplink.name) in discarding_peers:
        actual = "discards them, because the neighbour has no policy in both directions (RFC 8212)"
        yield PortMismatch("policy", "BGP's routes", "need those of other leaves", actual)
    yield from _compare_mtu_and_qos(leaf, config)


def _build_address_mismatch(subject: str, host: str, address: str, config: PortConfig) -> PortMismatch:
    return PortMismatch("address", subject, host, f"has {_format_addresses(config.addresses)}", _list_values(address))


def _list_values(address: str) -> tuple[tuple[str, str], ...]:
    """Return the values of a fix for an address."""
    return ("address", address), ("family", "ipv6" if ":" in address else "ipv4")


def _format_addresses(addresses: frozenset[str]) -> str:
    return ", ".join(sorted(addresses)) or "no address"


def _compare_mtu_and_qos(leaf: Leaf, config: PortConfig) -> Iterator[PortMismatch]:
    """Compare the port's MTU, and its treatment of RDMA and of congestion notifications."""
    if config.mtu_bytes < leaf.host_mtu_bytes:
        yield PortMismatch("mtu", "MTU", f"send {leaf.host_mtu_bytes} bytes", f"carries {config.mtu_bytes}")
    yield from _compare_rdma(leaf.qos, config.rdma)
    yield from _compare_cnp(leaf.qos, config)


def _compare_rdma(qos: QosPlan, rdma: Treatment) -> Iterator[PortMismatch]:
    if rdma.priority != qos.priority:
        kind = "lossless" if rdma.lossless else "lossy"
        actual = f"puts it in {kind} priority {rdma.priority}"
        yield PortMismatch("class", f"RDMA's DSCP {qos.dscp}", f"pause priority {qos.priority}", actual)
        return  # PFC and ECN of another class need no comparison
    if rdma.lossless != qos.pfc:
        subject = f"PFC on priority {qos.priority}"
        yield PortMismatch(
            "pfc", subject, f"have it {_format_on_off(qos.pfc)}", f"has it {_format_on_off(rdma.lossless)}"
        )
    if rdma.ecn != qos.ecn:
        subject = f"ECN for DSCP {qos.dscp}"
        host, switch = f"have it {_format_on_off(qos.ecn)}", f"has it {_format_on_off(rdma.ecn)}"
        yield PortMismatch("ecn", subject, host, switch)


def _compare_cnp(qos: QosPlan, config: PortConfig) -> Iterator[PortMismatch]:
    subject = f"congestion notifications, DSCP {qos.cnp_dscp}"
    host = "need a class of their own, served first"
    if config.cnp.priority == config.rdma.priority and config.rdma.lossless:
        actual = f"puts them in RDMA's priority {config.cnp.priority}"
        yield PortMismatch("cnp", subject, host, actual)
    elif not config.cnp.strict:
        yield PortMismatch("cnp", subject, host, "serves them in turn with others")


def _format_on_off(is_on: bool) -> str:  # noqa: FBT001 - a conversion of the value
    return "on" if is_on else "off"


def _compare_vlans(
    leaf: Leaf, configs: Mapping[str, PortConfig | None], read_gateways: Callable[[int], frozenset[str]]
) -> Iterator[tuple[PortMismatch, str]]:
    """Compare the VLANs of bridged rails and their gateways; yield each mismatch with the name of its port or VLAN.

    Any VLAN is accepted, as long as all ports of a rail are in the same one.
    """
    for vlan in leaf.vlans:
        numbers = [
            (port.name, config.vlan) for port in leaf.ports if (config := configs[port.name]) and port.rail == vlan.rail
        ]
        used = next((number for _, number in numbers if number), 0)
        values = (("vlan", str(used or vlan.number)),)
        for name, number in numbers:
            if number and number != used:
                host = f"are one segment, VLAN {used}"
                yield PortMismatch("vlan", f"rail {vlan.rail}", host, f"has VLAN {number}", values), name
        addresses = read_gateways(used or vlan.number)
        for gateway in vlan.gateways:
            if gateway not in addresses:
                mismatch = PortMismatch(
                    "gateway",
                    f"the gateway of rail {vlan.rail}",
                    f"use {gateway}",
                    f"has {_format_addresses(addresses)}",
                    (*values, *_list_values(gateway)),
                )
                yield mismatch, f"VLAN {used or vlan.number}"


def _merge_port_mismatches(leaf: Leaf, mismatch: PortMismatch, names: list[str], fixes: Mapping[str, str]) -> Mismatch:
    """Merge the same mismatch of several ports into one, with its fix."""
    hidden = len(names) - _MAX_NAMED_PORTS
    listing = ", ".join(names[:_MAX_NAMED_PORTS]) + (f" and {hidden} more" if hidden > 0 else "")
    values = {
        "port": names[0] if len(names) == 1 else "PORT",
        "mtu": str(leaf.mtu_bytes),
        "dscp": str(leaf.qos.dscp),
        "cnp_dscp": str(leaf.qos.cnp_dscp),
        "priority": str(leaf.qos.priority),
    } | dict(mismatch.values)
    code = mismatch.code
    planned = leaf.qos.pfc if code == "pfc" else leaf.qos.ecn
    fix = fixes[f"{code}-{_format_on_off(planned)}" if code in _TOGGLED_CODES else code].format(**values)
    return Mismatch(code, f"{leaf.name} {listing}", mismatch.subject, mismatch.host, mismatch.switch, fix)
