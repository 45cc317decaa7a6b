"""Ethernet interfaces in the states of a host, as plain values with their places: nmstate's YAML API, version 2.2.

interfaces:
- {name: rail0, type: ethernet, state: up, mtu: 9000, ipv4: {enabled: true, address: [{ip: ..., prefix-length: 31}]}}
routes:
config: [{destination: 172.24.0.0/15, next-hop-interface: rail0, next-hop-address: 172.24.0.1}]
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trackbed.fabric.importers.interface import (
    Interface,
    StaticAddress,
    StaticRoute,
    StaticRule,
    describe_addresses,
)
from trackbed.fabric.importers.nmstate.states import State
from trackbed.fabric.importers.policy import parse_rule
from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.tree import (
    Tree,
    find_place,
    get_list,
    get_scalar,
    get_text,
    get_tree,
    get_trees,
    is_true,
)
from trackbed.fabric.importers.values import ValueParser, parse_address_or_zero
from trackbed.fabric.model.source import Scalar

_PORT_TYPES = {"", "ethernet", "unknown", "infiniband"}
_MAIN_TABLE = {"", "0", "254"}
_VERSIONS = ("ipv4", "ipv6")
_RULE_KEYS = {"ip-from": "from", "ip-to": "to", "route-table": "table"}


class NmstateReader(ValueParser):
    """Reads the interfaces of one host and collects `problems`."""

    def read_interfaces(self, states: Sequence[State]) -> Iterator[Interface]:
        """Yield the Ethernet interfaces that are not part of a bond or bridge; report the others."""
        entries: dict[str, Tree] = {}
        macs: Tree = {}
        for state in states:
            macs |= state.macs
            for entry in get_trees(state.tree, "interfaces"):
                name = get_text(entry, "name")
                entries[name] = {**entries.get(name, {}), **entry}
        routes: dict[str, list[Tree]] = defaultdict(list)
        for route in (route for state in states for route in get_trees(get_tree(state.tree, "routes"), "config")):
            routes[get_text(route, "next-hop-interface")].append(route)
        self._report_routes(routes.pop("", []))
        vrfs = {
            member: name for name, entry in entries.items() for member in _iter_texts(get_tree(entry, "vrf"), "port")
        }
        rules = [rule for state in states for rule in self._read_rules(state)]
        owners = {member: name for name, entry in entries.items() for member in _iter_members(entry)}
        for name, entry in entries.items():
            owner = owners.get(name) or get_text(entry, "controller")
            if get_text(entry, "state") in {"absent", "down", "ignore"}:
                continue
            if get_text(entry, "type") not in _PORT_TYPES or _is_child(entry):
                self._report_virtual(name, entry)
            elif owner:
                message = f"{name} is no rail: it belongs to {owner}{describe_addresses(self._read_addresses(entry))}"
                self.add_problem("set-aside", message, find_place(entry), NOTE)
            else:
                interface = self._read_interface(name, entry, macs.get(name), routes[name], vrfs.get(name, ""))
                yield replace(interface, rules=tuple(rule for rule in rules if _is_of(rule, interface)))

    def _report_routes(self, routes: Sequence[Tree]) -> None:
        """Report the routes that name no interface, as those of type blackhole do."""
        for route in routes:
            if get_text(route, "state") != "absent":
                kind, destination = get_text(route, "route-type") or "unicast", get_text(route, "destination")
                message = f"the {kind} route to {destination} names no interface, so that the plan does not have it"
                message += "; keep it in a file of its own"
                self.add_problem("route-replaced", message, find_place(route))

    def _report_virtual(self, name: str, entry: Tree) -> None:
        addresses = [] if get_text(entry, "type") == "loopback" else list(self._read_addresses(entry))
        if addresses or any(True for _ in _iter_members(entry)):
            message = f"{get_text(entry, 'type')} {name} is no rail: rails are Ethernet ports"
            message += describe_addresses(addresses)
            self.add_problem("set-aside", message, find_place(entry), NOTE)

    def _read_interface(self, name: str, entry: Tree, mac: object, routes: Sequence[Tree], vrf: str) -> Interface:
        is_infiniband = get_text(entry, "type") == "infiniband"
        scalar = mac if isinstance(mac, Scalar) else get_scalar(entry, "permanent-mac-address")
        scalar = scalar or get_scalar(entry, "mac-address")
        mtu = get_scalar(entry, "mtu")
        is_named = get_text(entry, "identifier") in {"", "name"} and not isinstance(mac, Scalar)
        place = find_place(entry)
        return Interface(
            host=self.host,
            name=self.parse_name(name, place) if is_named else "",
            mac=self.parse_mac(scalar) if scalar and not is_infiniband else None,
            mtu_bytes=self.parse_mtu(mtu),
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._read_addresses(entry)),
            routes=tuple(self._read_routes(routes)),
            dhcp=any(is_true(get_tree(entry, version), "dhcp") for version in _VERSIONS),
            place=place,
            vrf=vrf,
            link_type="infiniband" if is_infiniband else "ethernet",
        )

    def _read_rules(self, state: State) -> Iterator[StaticRule]:
        for item in get_trees(get_tree(state.tree, "route-rules"), "config"):
            place = find_place(item)
            options = {_RULE_KEYS.get(key, key): get_text(item, key) for key in item}
            rule = parse_rule(self, options, place) if place and get_text(item, "state") != "absent" else None
            if rule:
                yield rule

    def _read_addresses(self, entry: Tree) -> Iterator[StaticAddress]:
        """Yield the static addresses; those beside DHCP or autoconf are leases in a state that nmstate shows."""
        known = set()
        for ip in (get_tree(entry, version) for version in _VERSIONS):
            is_static = get_text(ip, "enabled") != "false" and not is_true(ip, "dhcp") and not is_true(ip, "autoconf")
            for item in get_trees(ip, "address") if is_static else []:
                scalar = get_scalar(item, "ip") or find_place(item)
                if scalar is None:
                    continue
                place = scalar.place if isinstance(scalar, Scalar) else scalar
                text = f"{get_text(item, 'ip')}/{get_text(item, 'prefix-length')}"
                address = self.parse_address(Scalar(text, place))
                if address and address[:3] not in known:
                    known.add(address[:3])
                    yield address

    def _read_routes(self, routes: Sequence[Tree]) -> Iterator[StaticRoute]:
        for item in routes:
            destination = get_scalar(item, "destination")
            if get_text(item, "state") == "absent" or destination is None:
                continue
            route = self.parse_route(
                destination.text or "",
                get_text(item, "next-hop-address"),
                destination.place,
                in_main_table=get_text(item, "table-id") in _MAIN_TABLE,
            )
            if route:
                table, metric = get_text(item, "table-id"), get_text(item, "metric")
                yield route._replace(
                    table="" if route.in_main_table else table,
                    source=parse_address_or_zero(get_text(item, "source")),
                    extras=(f"metric {metric}",) if metric not in {"", "-1"} else (),
                )


def _is_of(rule: StaticRule, interface: Interface) -> bool:
    """Return whether a rule is for packets from an interface."""
    source = rule.source
    return source is not None and any(
        address.version == source.version and address.number in source for address in interface.addresses
    )


def _is_child(entry: Tree) -> bool:
    """Return whether an InfiniBand interface is one of a partition on another."""
    return bool(get_text(get_tree(entry, "infiniband"), "base-iface"))


def _iter_texts(tree: Tree, key: str) -> Iterator[str]:
    for item in get_list(tree, key):
        if isinstance(item, Scalar) and item.text:
            yield item.text


def _iter_members(entry: Tree) -> Iterator[str]:
    """Yield the names of the interfaces that a bond or bridge consists of."""
    bond = get_tree(entry, "link-aggregation")
    for key in ("port", "ports", "slaves"):
        yield from _iter_texts(bond, key)
    for item in get_trees(get_tree(entry, "bridge"), "port"):
        yield get_text(item, "name")
