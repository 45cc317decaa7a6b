import subprocess
from collections.abc import Callable
from configparser import RawConfigParser
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.host.steps.fabrics import FLAT, P2P, SCHEMES, SHARED, node_plan
from trackbed.fabric.model.ranges import Range, parse_address, parse_range
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, PlannedRule
from trackbed.host.formats import Format, get_file_mode
from trackbed.host.kinds import address, route
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings

GOLDEN = Path(__file__).parent / "golden"
PORTS = '["0000:18:00.0", "b8:3f:d2:00:00:01"]'
NODES = {"p2p": node_plan(P2P, PORTS), "shared": node_plan(SHARED, PORTS)}


@pytest.mark.parametrize("manager", FORMATS)
@pytest.mark.parametrize("name", NODES)
def test_files_are_as_they_were_reviewed(check_golden: Callable[[Path, str], None], name: str, manager: Format) -> None:
    folder = GOLDEN / name / manager
    files = FORMATS[manager](NODES[name])
    for path, content in files.items():
        check_golden(folder / path.lstrip("/"), content)
    assert {f"/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()} == set(files)


@pytest.mark.parametrize("manager", FORMATS)
@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_a_format_says_every_address_route_and_rule_of_the_plan(addressing: str, manager: Format) -> None:
    node = node_plan(addressing, PORTS)
    wanted = iter_settings(node)
    addresses = {str(s.want.address) for s in wanted if isinstance(s.want, address.Want)}
    routes = {s.want.route for s in wanted if isinstance(s.want, route.Want)}
    rules = {s.want for s in wanted if isinstance(s.want, PlannedRule)}
    assert _READERS[manager](FORMATS[manager](node)) == (addresses, routes, rules)


@pytest.mark.parametrize("manager", FORMATS)
def test_no_file_of_anybody_else_is_written(manager: Format) -> None:
    for path in FORMATS[manager](NODES["p2p"]):
        assert "trackbed" in path.rpartition("/")[2]


def test_only_root_reads_what_netplan_and_networkmanager_want_secret() -> None:
    modes = {path.split("/")[2]: get_file_mode(path) for manager in FORMATS for path in FORMATS[manager](NODES["p2p"])}
    secret = {"netplan": 0o600, "NetworkManager": 0o600}
    assert modes == secret | {"systemd": 0o644, "sysctl.d": 0o644, "iproute2": 0o644, "network": 0o644}


def test_a_port_known_by_name_only_is_not_renamed() -> None:
    files = FORMATS["networkd"](node_plan(P2P, '["enp1s0", "enp2s0"]'))
    assert [path for path in files if path.endswith(".link")] == []
    assert "/etc/systemd/network/10-trackbed-enp1s0.network" in files


@pytest.mark.needs("netplan")
@pytest.mark.may_skip("netplan is a program of other people's hosts; what it reads is checked above without it")
@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_netplan_makes_of_its_file_what_networkd_gets_directly(tmp_path: Path, addressing: str) -> None:
    node = node_plan(addressing, PORTS)
    for path, content in FORMATS["netplan"](node).items():
        _write(tmp_path, path, content)
    subprocess.run(["netplan", "generate", "--root-dir", tmp_path], check=True, timeout=60)
    made = {str(p): p.read_text() for p in tmp_path.glob("run/systemd/network/*.network")}
    fence = {str(p): p.read_text() for p in tmp_path.glob("etc/systemd/network/*.network.d/*.conf")}
    assert _from_networkd(made | fence) == _from_networkd(FORMATS["networkd"](node))


@pytest.mark.needs("nmcli")
@pytest.mark.may_skip("NetworkManager is a program of other people's hosts; what it reads is checked above without it")
@pytest.mark.parametrize("addressing", [P2P, FLAT], ids=["routed", "isolated"])
def test_networkmanager_reads_its_profiles_without_loss(addressing: str) -> None:
    files = FORMATS["networkmanager"](node_plan(addressing, PORTS))
    profiles = {path: text for path, text in files.items() if path.endswith(".nmconnection")}
    read_back = {
        path: subprocess.run(
            ["nmcli", "--offline", "connection", "modify"],
            input=text,
            text=True,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for path, text in profiles.items()
    }
    assert _from_networkmanager(read_back) == _from_networkmanager(profiles)


def _write(root: Path, path: str, content: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    place.chmod(get_file_mode(path))


_Read = tuple[set[str], set[PlannedRoute], set[PlannedRule]]


def _route(to: str, table: str | int, gateway: str = "", source: str = "", *, unreachable: bool) -> PlannedRoute:
    near, source_address = (parse_address(text)[1] if text else 0 for text in (gateway, source))
    return PlannedRoute(int(table), parse_range(to), near, source_address, unreachable)


def _rule(priority: str | int, table: str | int, source: str = "", unless_to: str = "") -> PlannedRule:
    version, address = parse_address(source.partition("/")[0]) if source else (4, 0)
    single = Range(version, address, 32 if version == 4 else 128) if source else None
    return PlannedRule(int(priority), int(table), single, parse_range(unless_to) if unless_to else None)


def _sections(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    for line in text.splitlines():
        if line.startswith("["):
            sections.append((line.strip("[]"), []))
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            sections[-1][1].append((key, value))
    return sections


def _from_networkd(files: dict[str, str]) -> _Read:
    addresses, routes, rules = set[str](), set[PlannedRoute](), set[PlannedRule]()
    for path, text in files.items():
        for name, entries in _sections(text) if ".network" in path else ():
            known = dict(entries)
            addresses |= {value for key, value in entries if key == "Address"}
            if name == "Route":
                unreachable = known.get("Type") == "unreachable"
                hop = known.get("Gateway", ""), known.get("PreferredSource", "")
                routes.add(_route(known["Destination"], known["Table"], *hop, unreachable=unreachable))
            if name == "RoutingPolicyRule":
                assert ("To" in known) == (known.get("InvertRule") == "yes")
                rules.add(_rule(known["Priority"], known["Table"], known.get("From", ""), known.get("To", "")))
    return addresses, routes, rules


def _from_netplan(files: dict[str, str]) -> _Read:
    ethernets = yaml.safe_load(files["/etc/netplan/90-trackbed.yaml"])["network"]["ethernets"].values()
    _, _, fences = _from_networkd(files)
    routes = {
        _route(r["to"], r["table"], r.get("via", ""), r.get("from", ""), unreachable=r.get("type") == "unreachable")
        for port in ethernets
        for r in port["routes"]
    }
    rules = {_rule(r["priority"], r["table"], r["from"]) for port in ethernets for r in port["routing-policy"]}
    return {address for port in ethernets for address in port["addresses"]}, routes, rules | fences


def _from_networkmanager(files: dict[str, str]) -> _Read:
    addresses, routes, rules = set[str](), set[PlannedRoute](), set[PlannedRule]()
    for path, text in files.items():
        parser = RawConfigParser()
        parser.read_string(text if path.endswith(".nmconnection") else "")
        for known in (dict(parser[name]) for name in ("ipv4", "ipv6") if name in parser):
            addresses |= {value for key, value in known.items() if key.startswith("address")}
            for key in [key for key in known if key.startswith("route") and key[5:].isdigit()]:
                options = dict(option.split("=") for option in known[f"{key}_options"].split(","))
                to, _, gateway = known[key].partition(",")
                unreachable = options.get("type") == "unreachable"
                assert options.get("scope") == ("0" if unreachable and ":" not in to else None)
                routes.add(_route(to, options["table"], gateway, options.get("src", ""), unreachable=unreachable))
            for value in (value for key, value in known.items() if key.startswith("routing-rule")):
                words = value.split()
                pairs = dict(zip(words[::2], words[1::2], strict=True)) if "not" not in words else {}
                fence = words[4] if words[2:4] == ["not", "to"] else ""
                rules.add(_rule(words[1], pairs.get("table", MAIN_TABLE), pairs.get("from", ""), fence))
    return addresses, routes, rules


def _from_ifupdown(files: dict[str, str]) -> _Read:
    addresses, routes, rules = set[str](), set[PlannedRoute](), set[PlannedRule]()
    for line in files["/etc/network/interfaces.d/trackbed"].splitlines():
        words = line.split()
        addresses |= set(words[1:2]) if words[:1] == ["address"] else set()
        if "route" in words:
            unreachable = words[5] == "unreachable"
            known = dict(pairwise(words[6 + unreachable :]))
            hop = known.get("via", ""), known.get("src", "")
            routes.add(_route(words[5 + unreachable], known["table"], *hop, unreachable=unreachable))
        if "rule" in words:
            known = dict(pairwise(line.rpartition("rule add ")[2].split()))
            assert known["protocol"] == "114"
            rules.add(_rule(known["priority"], known["lookup"], known.get("from", ""), known.get("to", "")))
    return addresses, routes, rules


_READERS = {
    "netplan": _from_netplan,
    "networkd": _from_networkd,
    "networkmanager": _from_networkmanager,
    "ifupdown": _from_ifupdown,
}


@pytest.mark.parametrize(
    ("manager", "fence"), [("networkd", "InvertRule=yes"), ("networkmanager", "priority 999 not to")]
)
def test_each_ports_file_has_the_fence_since_a_manager_removes_what_only_a_leaving_port_has(
    manager: Format, fence: str
) -> None:
    files = FORMATS[manager](node_plan(P2P, PORTS))
    ports = [text for path, text in files.items() if path.endswith((".network", ".nmconnection"))]
    assert [fence in text for text in ports] == [True, True]


def test_a_node_without_a_port_on_a_rail_has_no_file_for_it() -> None:
    whole = node_plan(P2P, PORTS)
    files = FORMATS["networkd"](whole._replace(ports=whole.ports[1:]))
    assert [path for path in files if "rail0" in path] == []
    assert "InvertRule=yes" in files["/etc/systemd/network/10-trackbed-rail1.network"]
    assert "rail0" not in files["/etc/iproute2/rt_tables.d/trackbed.conf"]
