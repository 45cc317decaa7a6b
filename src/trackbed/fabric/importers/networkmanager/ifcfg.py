"""ifcfg files of RHEL's network-scripts, which NetworkManager reads too: nm-settings-ifcfg-rh(5).

    ifcfg-rail0:  DEVICE=rail0        route-rail0:  172.24.0.0/15 via 172.24.0.1
                  IPADDR=172.24.0.0   rule-rail0:   from 172.24.0.0 table 101 priority 1010
                  PREFIX=31
                  MTU=9000

Routes and rules are in the words of ip-route(8) and ip-rule(8).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trackbed.fabric.importers.interface import Interface, StaticAddress, StaticRoute
from trackbed.fabric.importers.networkmanager.netmask import parse_netmask
from trackbed.fabric.importers.networkmanager.profile import Profile
from trackbed.fabric.importers.networkmanager.routes import RouteReader
from trackbed.fabric.importers.networkmanager.shell import Variables, read_variables
from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.model.source import Scalar

_PREFIXES = ("ifcfg-", "route-", "route6-", "rule-", "rule6-")
_BACKUP = re.compile(r".*(?:~|\.bak|\.old|\.orig|\.rej|\.rpmnew|\.rpmorig|\.rpmsave|\.augnew|\.augsave)")
"""Names that network-scripts and NetworkManager skip (utils_should_ignore_file in nms-ifcfg-rh-utils.c)."""
_OWNERS = ("MASTER", "MASTER_UUID", "BRIDGE", "BRIDGE_UUID", "TEAM_MASTER", "TEAM_MASTER_UUID", "OVS_BRIDGE")
_IP_ADDRESS = re.compile(r"IPADDR(_?[A-Za-z0-9]*)")
_YES = {"yes", "true", "y", "t", "1", "on"}


def is_ifcfg(path: PurePosixPath) -> bool:
    """Return whether a file is one of network-scripts, and no backup."""
    return path.name.startswith(_PREFIXES) and not _BACKUP.fullmatch(path.name)


class IfcfgReader:
    """Reads the ifcfg files of one host and collects `problems` of their form."""

    def __init__(self, values: ValueParser) -> None:
        self._values = values
        self._routes = RouteReader(values)
        self.problems: list[Problem] = []

    def read_profiles(self, files: Sequence[NamedFile]) -> Iterator[Profile]:
        """Yield the profile of each ifcfg file. Raises SpecError if a file is too large or not UTF-8."""
        by_name = {PurePosixPath(file[0]).name: file for file in sorted(files)}
        for name, file in by_name.items():
            suffix = name.removeprefix("ifcfg-")
            if suffix in {name, "lo"}:
                continue
            variables = read_variables(file, self.problems)
            routes = [by_name[key] for key in (f"route-{suffix}", f"route6-{suffix}") if key in by_name]
            profile = self._read_profile(variables, suffix, routes, Place(file[0], 1, 1))
            rule_files = [by_name[key] for key in (f"rule-{suffix}", f"rule6-{suffix}") if key in by_name]
            rules = tuple(rule for rule_file in rule_files for rule in self._routes.read_rules(rule_file))
            yield profile._replace(interface=replace(profile.interface, rules=rules))

    def _read_profile(self, variables: Variables, suffix: str, routes: list[NamedFile], place: Place) -> Profile:
        return Profile(
            interface=self._read_interface(variables, suffix, routes, place),
            kind="partition" if _get_text(variables, "PKEY").lower() in _YES else _read_kind(variables),
            owner=next((text for key in _OWNERS if (text := _get_text(variables, key))), ""),
            starts_at_boot=_get_text(variables, "ONBOOT").lower() in {*_YES, ""},
            priority=0,
            place=place,
        )

    def _read_interface(self, variables: Variables, suffix: str, routes: list[NamedFile], place: Place) -> Interface:
        mtu = variables.get("MTU")
        is_infiniband = _read_kind(variables) == "infiniband"
        mac = None if is_infiniband else variables.get("HWADDR") or variables.get("MACADDR")
        name = _get_text(variables, "DEVICE") or ("" if mac else suffix)
        name_place = variables["DEVICE"].place if name and "DEVICE" in variables else place
        return Interface(
            host=self._values.host,
            name=self._values.parse_name(name, name_place) if name else "",
            mac=self._values.parse_mac(mac) if mac and mac.text else None,
            mtu_bytes=self._values.parse_mtu(mtu) if mtu and mtu.text else None,
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._read_addresses(variables)),
            routes=tuple(self._read_routes(variables, routes)),
            dhcp=_get_text(variables, "BOOTPROTO").lower() in {"dhcp", "bootp"},
            place=place,
            link_type="infiniband" if is_infiniband else "ethernet",
        )

    def _read_addresses(self, variables: Variables) -> Iterator[StaticAddress]:
        for key, scalar in variables.items():
            number = _IP_ADDRESS.fullmatch(key)
            prefix = self._read_prefix(variables, number[1], scalar) if number and scalar.text else ""
            if prefix:
                yield from self._parse_address(Scalar(f"{scalar.text}/{prefix}", scalar.place))
        for key in ("IPV6ADDR", "IPV6ADDR_SECONDARIES"):
            scalar = variables.get(key) or Scalar(None, Place("", 1, 1))
            for address in (scalar.text or "").split():
                text = address if "/" in address else f"{address}/64"
                yield from self._parse_address(Scalar(text, scalar.place))

    def _parse_address(self, scalar: Scalar) -> Iterator[StaticAddress]:
        address = self._values.parse_address(scalar)
        if address:
            yield address

    def _read_prefix(self, variables: Variables, number: str, address: Scalar) -> str:
        """Return the prefix length of an address: PREFIX, else NETMASK; empty without either, which is reported."""
        prefix, netmask = _get_text(variables, f"PREFIX{number}"), variables.get(f"NETMASK{number}")
        if prefix:
            return prefix
        if netmask is None or not netmask.text:
            message = f"{address.text} has no PREFIX{number} beside it, and no NETMASK{number}; it is left out"
            self._values.add_problem("bad-address", message, address.place)
            return ""
        length = parse_netmask(netmask.text)
        if length is None:
            message = f"{netmask.text!r} is no netmask, as 255.255.255.0 is; {address.text} is left out"
            self._values.add_problem("bad-netmask", message, netmask.place)
        return "" if length is None else str(length)

    def _read_routes(self, variables: Variables, files: list[NamedFile]) -> Iterator[StaticRoute]:
        is_default = _get_text(variables, "DEFROUTE").lower() in {*_YES, ""}
        for key in ("GATEWAY", "GATEWAY0", "IPV6_DEFAULTGW"):
            gateway = _get_text(variables, key).partition("%")[0]
            if gateway and is_default:
                route = self._values.parse_route("default", gateway, variables[key].place, in_main_table=True)
                if route:
                    yield route
        for file in files:
            yield from self._routes.read_routes(file, self.problems)


def _read_kind(variables: Variables) -> str:
    kind = _get_text(variables, "TYPE").lower() or _get_text(variables, "DEVICETYPE").lower() or "ethernet"
    if _get_text(variables, "VLAN").lower() in _YES:
        return "vlan"
    if "BONDING_OPTS" in variables or _get_text(variables, "BONDING_MASTER").lower() in _YES:
        return "bond"
    return kind


def _get_text(variables: Variables, key: str) -> str:
    scalar = variables.get(key)
    return (scalar.text if scalar else "") or ""
