"""Tables, rules and link types that each source tells, so that an import knows what its plan replaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.importers.sites import Files, codes
from trackbed.fabric.importers.interface import StaticRule
from trackbed.fabric.importers.policy import parse_rule_words
from trackbed.fabric.importers.registry import load_source
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place

_ROUTE = (
    "rail 0 (eth0): the plan replaces the route to everywhere by its gateway in table 101: it has it in table 1000; "
)
_RULE = "rail 0 (eth0): the plan replaces the rule from its address for table 101 with priority 1010: its rule is for "


def _networkd(rail: int, number: int) -> dict[str, str]:
    return {
        f"10-eth{rail}.network": f"[Match]\nName=eth{rail}\n[Link]\nMTUBytes=9000\n[Network]\n"
        f"Address=10.{rail}.0.{number}/31\n[Route]\nGateway=10.{rail}.0.{number + 1}\nTable=10{rail + 1}\n"
        f"[Route]\nDestination=10.{rail}.0.0/16\nGateway=10.{rail}.0.{number + 1}\n"
        f"[RoutingPolicyRule]\nFrom=10.{rail}.0.{number}\nTable=10{rail + 1}\nPriority=1010\n"
    }


def _keyfile(rail: int, number: int) -> dict[str, str]:
    return {
        f"eth{rail}.nmconnection": f"[connection]\ntype=ethernet\ninterface-name=eth{rail}\n[ethernet]\nmtu=9000\n"
        f"[ipv4]\nmethod=manual\naddress1=10.{rail}.0.{number}/31\nroute1=10.{rail}.0.0/16,10.{rail}.0.{number + 1}\n"
        f"route2=0.0.0.0/0,10.{rail}.0.{number + 1}\nroute2_options=table=10{rail + 1}\n"
        f"routing-rule1=priority 1010 from 10.{rail}.0.{number} table 10{rail + 1}\n"
    }


def _ifcfg(rail: int, number: int) -> dict[str, str]:
    return {
        f"ifcfg-eth{rail}": f"DEVICE=eth{rail}\nIPADDR=10.{rail}.0.{number}\nPREFIX=31\nMTU=9000\n",
        f"route-eth{rail}": f"10.{rail}.0.0/16 via 10.{rail}.0.{number + 1}\n"
        f"default via 10.{rail}.0.{number + 1} table 10{rail + 1}\n",
        f"rule-eth{rail}": f"# the rail's table\nfrom 10.{rail}.0.{number}/32 lookup 10{rail + 1} pref 1010\n",
    }


def _nmstate(rail: int, number: int) -> dict[str, str]:
    gateway, table = f"10.{rail}.0.{number + 1}", f"10{rail + 1}"
    return {
        f"eth{rail}.yml": "interfaces:\n"
        f"- {{name: eth{rail}, type: ethernet, state: up, mtu: 9000, ipv4: {{enabled: true, "
        f"address: [{{ip: 10.{rail}.0.{number}, prefix-length: 31}}]}}}}\n"
        "routes:\n  config:\n"
        f"  - {{destination: 10.{rail}.0.0/16, next-hop-interface: eth{rail}, next-hop-address: {gateway}}}\n"
        f"  - {{destination: 0.0.0.0/0, next-hop-interface: eth{rail}, next-hop-address: {gateway}, "
        f"table-id: {table}}}\n"
        "route-rules:\n  config:\n"
        f"  - {{ip-from: 10.{rail}.0.{number}/32, route-table: {table}, priority: 1010}}\n"
    }


_BUILDERS = {"networkd": (_networkd, "networkd"), "keyfile": (_keyfile, "networkmanager")}
_BUILDERS |= {"ifcfg": (_ifcfg, "networkmanager"), "nmstate": (_nmstate, "nmstate")}


def _import(files: Files, source: str) -> ImportResult:
    return load_source(source).import_files(files, "imported")


@pytest.mark.parametrize(("build", "source"), _BUILDERS.values(), ids=_BUILDERS.keys())
def test_every_source_tells_the_tables_and_rules_that_the_plan_replaces(build: object, source: str) -> None:
    assert callable(build)
    files: Files = {
        f"n{host}": [(name, text.encode()) for rail in (0, 1) for name, text in build(rail, 2 * host).items()]
        for host in (0, 1, 2)
    }
    imported = _import(files, source)
    assert set(codes(imported)) == {"route-replaced", "rule-replaced"}
    messages = [problem.message for problem in imported.problems]
    assert any(message.startswith(_ROUTE) for message in messages)
    assert any(message.startswith(_RULE) for message in messages)


_INFINIBAND = {
    "networkd": (
        "networkd",
        "20-ib{rail}.network",
        "[Match]\nName=ib{rail}\nType=infiniband\n[Network]\nAddress=10.{rail}.0.{number}/16\n",
    ),
    "keyfile": (
        "networkmanager",
        "ib{rail}.nmconnection",
        (
            "[connection]\ntype=infiniband\ninterface-name=ib{rail}\n[infiniband]\nmtu=2044\n"
            "mac-address=80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:00:0{rail}:00\n"
            "[ipv4]\nmethod=manual\naddress1=10.{rail}.0.{number}/16\n"
        ),
    ),
    "ifcfg": (
        "networkmanager",
        "ifcfg-ib{rail}",
        (
            "DEVICE=ib{rail}\nTYPE=InfiniBand\nIPADDR=10.{rail}.0.{number}\nPREFIX=16\n"
            "HWADDR=80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:00:0{rail}:00\n"
        ),
    ),
    "nmstate": (
        "nmstate",
        "ib{rail}.yml",
        (
            "interfaces: [{{name: ib{rail}, type: infiniband, state: up, infiniband: {{mode: datagram}}, "
            "ipv4: {{enabled: true, address: [{{ip: 10.{rail}.0.{number}, prefix-length: 16}}]}}}}]\n"
        ),
    ),
}


@pytest.mark.parametrize(("source", "name", "text"), _INFINIBAND.values(), ids=_INFINIBAND.keys())
def test_infiniband_ports_are_rails_of_an_infiniband_fabric(source: str, name: str, text: str) -> None:
    files: Files = {
        f"n{host}": [(name.format(rail=rail), text.format(rail=rail, number=16 * host).encode()) for rail in (0, 1)]
        for host in (1, 2, 3)
    }
    imported = _import(files, source)
    assert codes(imported) == []
    spec = imported.document["spec"]
    assert (spec["linkType"], spec["rails"]) == ("infiniband", "2")


def test_an_infiniband_partition_is_no_port() -> None:
    text = "[connection]\ntype=infiniband\ninterface-name=ib0.8001\n[infiniband]\nparent=ib0\np-key=32769\n"
    files: Files = {
        f"n{host}": [
            (f"ib{rail}.nmconnection", _INFINIBAND["keyfile"][2].format(rail=rail, number=16 * host).encode())
            for rail in (0, 1)
        ]
        + [("p.nmconnection", f"{text}[ipv4]\naddress1=10.9.0.{host}/16\n".encode())]
        for host in (1, 2, 3)
    }
    imported = _import(files, "networkmanager")
    assert imported.document["spec"]["rails"] == "2"
    assert any("partition ib0.8001 is no rail" in problem.message for problem in imported.problems)


def _parse(text: str) -> tuple[StaticRule | None, list[str]]:
    parser = ValueParser("h")
    return parse_rule_words(parser, text.split(), Place("r", 1, 1)), [problem.message for problem in parser.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from 10.0.0.2 table 101 priority 1010", ("10.0.0.2/32", None, "101", 1010, ())),
        ("priority 999 not to 10.0.0.0/8 lookup main", (None, "10.0.0.0/8", "main", 999, ())),
        ("not from 10.0.0.0/8 table 7", ("10.0.0.0/8", None, "7", None, ("not",))),
        ("from all to 10.0.0.0/8 table 7", (None, None, "7", None, ("to 10.0.0.0/8",))),
        ("from fd00::1 fwmark 7 table x pref 0x10", ("fd00::1/128", None, "x", None, ("fwmark 7", "priority 0x10"))),
    ],
)
def test_a_rule_is_read_in_the_words_of_ip_rule(text: str, expected: tuple[object, ...]) -> None:
    rule, messages = _parse(text)
    assert messages == []
    assert rule is not None
    ranges = [str(range_) if range_ else None for range_ in (rule.source, rule.unless_to)]
    assert (*ranges, rule.table, rule.priority, rule.extras) == expected


_WORDS = st.lists(st.sampled_from(["from", "to", "not", "table", "7", "10.0.0.0/33", "::/0", "priority", "-1"]))


@given(st.text(max_size=60) | _WORDS.map(" ".join))
def test_any_words_are_a_rule_or_a_problem(text: str) -> None:
    rule, messages = _parse(text)
    assert (rule is None) == bool(messages)
