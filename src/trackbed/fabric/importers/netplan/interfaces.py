"""Ethernet and InfiniBand interfaces in a host's `network`, as plain values with their places.

    enp27s0np0:
      match: {macaddress: "b8:3f:d2:00:00:40"}
      set-name: rail4
      mtu: 9000
      addresses: [172.24.0.0/31, {"fd00:10::8/127": {label: x}}]
      routes: [{to: 172.24.0.0/15, via: 172.24.0.1}]

An interface is InfiniBand if it has infiniband-mode or a hardware address of 20 octets. A port in a VRF has the routes
of the VRF too. Keys that do not concern addresses (nameservers, optional, renderer ...) are ignored.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from trackbed.fabric.importers.interface import (
    Interface,
    StaticAddress,
    StaticRoute,
    StaticRule,
    describe_addresses,
)
from trackbed.fabric.importers.netplan.files import Tree
from trackbed.fabric.importers.netplan.routing import read_routes, read_rules
from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.tree import find_place, get_scalar, get_text, is_true, list_items
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.source import Scalar

OTHER_KINDS = (
    "bonds", "bridges", "vlans", "tunnels", "wifis", "modems", "dummy-devices", "virtual-ethernets", "nm-devices",
)  # fmt: skip
"""Sections of netplan other than `ethernets` and `vrfs`; none of them contains a port."""

_IB_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){19}")
"""Hardware address of an IPoIB interface: queue pair, subnet prefix and GUID (RFC 4391, 9.1.1)."""

_GLOB = re.compile(r"[*?\[]")


class Vrf(NamedTuple):
    """A VRF: its name and table, and its routes and rules."""

    name: str
    table: str
    routes: tuple[StaticRoute, ...]
    rules: tuple[StaticRule, ...]

    def select_routes(self, addresses: Sequence[StaticAddress]) -> Iterator[StaticRoute]:
        """Yield the routes by a gateway in a subnet of these addresses."""
        subnets = [address.subnet for address in addresses]
        return (
            route
            for route in self.routes
            if any(route.to.version == subnet.version and route.via in subnet for subnet in subnets)
        )


_NO_VRF = Vrf("", "", (), ())


class InterfaceReader(ValueParser):
    """Reads the interfaces of one host and collects `problems`."""

    def read_interfaces(self, network: Tree) -> Iterator[Interface]:
        """Yield the ports that are not part of a bond or bridge; report the others."""
        owners = dict(self._iter_members(network))
        vrfs = dict(self._iter_vrf_members(network))
        for key, entry in self._read_section(network, "ethernets"):
            if key in owners:
                addresses = describe_addresses(self._read_addresses(entry) if isinstance(entry, dict) else ())
                self.add_problem("set-aside", f"{key} is no rail: it belongs to {owners[key]}{addresses}", None, NOTE)
            elif isinstance(entry, dict):
                yield self._read_interface(key, entry, vrfs.get(key, _NO_VRF))
            elif not (isinstance(entry, Scalar) and entry.text is None):
                self.add_problem("wrong-shape", f"ethernets.{key} must be a mapping", find_place(entry))

    def _iter_members(self, network: Tree) -> Iterator[tuple[str, str]]:
        """Report bonds, bridges and other virtual interfaces; yield (member, label of its bond or bridge)."""
        for kind in OTHER_KINDS:
            for name, entry in self._read_section(network, kind):
                label = f"{kind.removesuffix('s')} {name}"
                addresses = list(self._read_addresses(entry)) if isinstance(entry, dict) else []
                place = addresses[0].place if addresses else find_place(entry)
                message = f"{label} is no rail: rails are Ethernet ports{describe_addresses(addresses)}"
                self.add_problem("set-aside", message, place, NOTE)
                for member in list_items(entry, "interfaces") if isinstance(entry, dict) else []:
                    if isinstance(member, Scalar) and member.text:
                        yield member.text, label

    def _iter_vrf_members(self, network: Tree) -> Iterator[tuple[str, Vrf]]:
        """Yield (member, VRF)."""
        for name, entry in self._read_section(network, "vrfs"):
            if isinstance(entry, dict):
                table = get_text(entry, "table")
                routes, rules = tuple(read_routes(self, entry, table)), tuple(read_rules(self, entry, table))
                for member in list_items(entry, "interfaces"):
                    if isinstance(member, Scalar) and member.text:
                        yield member.text, Vrf(name, table, routes, rules)

    def _read_interface(self, key: str, entry: Tree, vrf: Vrf) -> Interface:
        mtu = get_scalar(entry, "mtu")
        match = entry["match"] if isinstance(entry.get("match"), dict) else {}
        is_infiniband = "infiniband-mode" in entry or _has_ib_mac(match) or _has_ib_mac(entry)
        mac = None if is_infiniband else self._read_mac(match, entry)
        if _has_ib_mac(match) and not get_text(entry, "set-name"):
            message = f"a Fabric selects InfiniBand ports by PCI address or name; {key} is taken for the port's name"
            self.add_problem("ib-mac", message, find_place(match))
        if (mode := get_text(entry, "infiniband-mode")) not in {"", "datagram"}:
            message = (
                f"infiniband-mode {mode} is not in a plan, which leaves the mode as it is; keep it in a file of its own"
            )
            self.add_problem("ib-mode", message, find_place(entry["infiniband-mode"]))
        addresses = tuple(self._read_addresses(entry))
        return Interface(
            host=self.host,
            name=self._read_name(key, entry, match, mac),
            mac=mac,
            mtu_bytes=self.parse_mtu(mtu),
            mtu_place=mtu.place if mtu else None,
            addresses=addresses,
            routes=(*read_routes(self, entry, vrf.table), *vrf.select_routes(addresses)),
            dhcp=any(is_true(entry, field) for field in ("dhcp4", "dhcp6")),
            place=find_place(entry),
            rules=(*read_rules(self, entry, vrf.table), *vrf.rules),
            vrf=vrf.name,
            link_type="infiniband" if is_infiniband else "ethernet",
        )

    def _read_name(self, key: str, entry: Tree, match: Tree, mac: str | None) -> str:
        set_name, match_name = get_scalar(entry, "set-name"), get_scalar(match, "name")
        literal = match_name if match_name and match_name.text and not _GLOB.search(match_name.text) else None
        source = next((scalar for scalar in (set_name, literal) if scalar and scalar.text), None)
        name = source.text if source and source.text else key
        if match and not (source or mac or "macaddress" in match):
            message = (
                f"{key} matches ports by a pattern or driver only; give it macaddress or set-name, or call it {key}"
            )
            self.add_problem("vague-match", message, find_place(match))
        return self.parse_name(name, source.place if source else find_place(entry))

    def _read_mac(self, match: Tree, entry: Tree) -> str | None:
        """Return the permanent address in `match` if present, else the configured address."""
        scalar = get_scalar(match, "macaddress") or get_scalar(entry, "macaddress")
        if scalar is None or scalar.text in {None, "permanent", "random", "stable", "preserve"}:
            return None
        return self.parse_mac(scalar)

    def _read_addresses(self, entry: Tree) -> Iterator[StaticAddress]:
        known = set()
        for item in list_items(entry, "addresses"):
            scalar = item
            if isinstance(item, dict) and len(item) == 1:  # {address: {label: ..., lifetime: ...}}
                place = find_place(item) or find_place(entry)
                scalar = Scalar(next(iter(item)), place) if place else item
            address = self._read_address(scalar)
            if address and address[:3] not in known:
                known.add(address[:3])
                yield address

    def _read_address(self, scalar: object) -> StaticAddress | None:
        if isinstance(scalar, Scalar):
            return self.parse_address(scalar)
        self.add_problem("bad-address", "an address must be text, as in 172.16.0.0/31", find_place(scalar))
        return None

    def _read_section(self, network: Tree, section: str) -> list[tuple[str, Any]]:
        entries = network.get(section)
        if isinstance(entries, dict):
            return list(entries.items())
        if entries is not None and not (isinstance(entries, Scalar) and entries.text is None):
            self.add_problem("wrong-shape", f"network.{section} must be a mapping of interfaces", find_place(entries))
        return []


def _has_ib_mac(tree: Tree) -> bool:
    return _IB_MAC.fullmatch(get_text(tree, "macaddress").lower().replace("-", ":")) is not None
