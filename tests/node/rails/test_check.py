"""CHECK compares every field of what an attachment set: whatever is changed by hand is named, with its rail."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import pytest

from tests.node.rails.hostile import run_ip
from tests.node.rails.node import FABRIC, Node, Pod, made, planned

pytestmark = pytest.mark.needs("root", "ip", "nsenter")

DUAL = FABRIC.replace("rails: 8", "rails: 2").replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 25, ipv6: 'fd00:10::/44'")
SCHEMES = {
    "node-subnet": DUAL,
    "isolated": f"{DUAL}  routing: {{crossRail: isolated}}\n",
    "shared-subnet": DUAL.replace("node-subnet", "shared-subnet").replace(", ipv4NodePrefix: 25", ""),
    "point-to-point": DUAL.replace("node-subnet", "point-to-point").replace(", ipv4NodePrefix: 25", ""),
    "none": FABRIC.replace("node-subnet, ipv4: 10.0.0.0/12, ipv4NodePrefix: 27", "none"),
}

ADDRESS_CHANGES = {
    "4 prefix": ("add {a4}/26 dev rail1; del {a4}/25 dev rail1", "prefix is 26, was 25"),
    "4 peer": ("del {a4}/25 dev rail1; add {a4} peer 192.0.2.1/25 dev rail1", "peer is c0000201, was not set"),
    "4 broadcast": ("del {a4}/25 dev rail1; add {a4}/25 broadcast 10.9.9.9 dev rail1", "broadcast is 0a090909, was"),
    "4 label": ("del {a4}/25 dev rail1; add {a4}/25 label rail1:x dev rail1", "label is rail1:x, was rail1"),
    "4 scope": ("del {a4}/25 dev rail1; add {a4}/25 scope link dev rail1", "scope is 253, was 0"),
    "4 metric": ("change {a4}/25 dev rail1 metric 7", "metric is 07000000, was not set"),
    "4 flags": ("del {a4}/25 dev rail1; add {a4}/25 dev rail1 noprefixroute", "flags is 512, was 0"),
    "4 secondary": ("del {a4}/25 dev rail1; add {o4}/25 dev rail1; add {a4}/25 dev rail1", "flags is 1, was 0"),
    "4 valid_lft": ("change {a4}/25 dev rail1 valid_lft 90000 preferred_lft 90000", "valid_lft is "),
    "4 preferred_lft": ("change {a4}/25 dev rail1 preferred_lft 0", "flags is 32, was 0"),
    "6 prefix": ("del {a6}/64 dev rail1; add {a6}/65 dev rail1 nodad", "prefix is 65, was 64"),
    "6 peer": ("del {a6}/64 dev rail1; add {a6} peer fd00::9/64 dev rail1 nodad", "peer is fd00"),
    "6 metric": ("change {a6}/64 dev rail1 nodad metric 7", "metric is 07000000, was not set"),
    "6 flags": ("change {a6}/64 dev rail1 nodad noprefixroute", "flags is 514, was 2"),
    "6 nodad": ("del {a6}/64 dev rail1; add {a6}/64 dev rail1", "flags is 0, was 2"),
    "6 valid_lft": ("change {a6}/64 dev rail1 nodad valid_lft 90000 preferred_lft 90000", "valid_lft is "),
    "6 preferred_lft": ("change {a6}/64 dev rail1 nodad preferred_lft 90000", "preferred_lft is "),
}
"""Commands of `ip address`, and what CHECK says of the address of rail 1."""

NEAR_4, NEAR_6 = "{s4} dev rail1 src {a4} table 1001", "{s6} dev rail1 src {a6} table 1001"
FAR_4, FAR_6 = "default via {g4} dev rail1 src {a4} table 1001", "default via {g6} dev rail1 src {a6} table 1001"
ROUTE_CHANGES = {
    "4 table": (f"del {FAR_4}; add default via {{g4}} dev rail1 src {{a4}} table 1002", "is missing from table 1001"),
    "4 to": (f"del {FAR_4}; add 128.0.0.0/1 via {{g4}} dev rail1 table 1001", "is missing from table 1001"),
    "4 oif": ("replace {s4} dev rail0 src {a4} table 1001", "oif is 65536, was 65537"),
    "4 gateway": ("replace default via {o4} dev rail1 src {a4} table 1001", "gateway is {o4}, was {g4}"),
    "4 no gateway": ("replace default dev rail1 src {a4} table 1001", "gateway is none, was {g4}"),
    "4 prefsrc": ("replace default via {g4} dev rail1 table 1001", "prefsrc is none, was {a4}"),
    "4 metric": (f"del {FAR_4}; add {FAR_4} metric 5", "metric is 5, was 0"),
    "4 scope": (f"replace {NEAR_4} scope global", "scope is 0, was 253"),
    "4 onlink": (f"replace {FAR_4} onlink", "onlink is True, was False"),
    "4 type": ("replace prohibit default table 1001", "type is 8, was 1"),
    "4 tos": (f"del {FAR_4}; add {FAR_4} tos 0x10", "tos is 16, was not set"),
    "4 mtu": (f"replace {FAR_4} mtu 1400", "mtu is 1400, was not set"),
    "4 advmss": (f"replace {FAR_4} advmss 1400", "advmss is 1400, was not set"),
    "4 realm": (f"replace {FAR_4} realm 7", "realm is 07000000, was not set"),
    "4 hops": (
        "replace default src {a4} table 1001 nexthop via {g4} dev rail1 nexthop via {o4} dev rail1",
        "hops is (65537, 65537), was none",
    ),
    "6 table": (f"del {FAR_6}; add default via {{g6}} dev rail1 src {{a6}} table 1002", "is missing from table 1001"),
    "6 oif": (f"del {NEAR_6}; add {{s6}} dev rail0 src {{a6}} table 1001", "oif is 65536, was 65537"),
    "6 gateway": ("replace default via {o6} dev rail1 src {a6} table 1001", "gateway is {o6}, was {g6}"),
    "6 prefsrc": ("replace default via {g6} dev rail1 table 1001", "prefsrc is none, was {a6}"),
    "6 metric": (f"del {FAR_6}; add {FAR_6} metric 5", "metric is 5, was 0"),
    "6 onlink": (f"replace {FAR_6} onlink", "onlink is True, was False"),
    "6 type": (f"del {FAR_6}; add prohibit default table 1001", "type is 8, was 1"),
    "6 from": (f"del {FAR_6}; add default from fd00:10::/44 via {{g6}} dev rail1 table 1001", "from prefix is 44, was"),
    "6 mtu": (f"replace {FAR_6} mtu 1400", "mtu is 1400, was not set"),
    "6 pref": (f"replace {FAR_6} pref high", "pref is 1, was not set"),
    "6 expires": (f"replace {FAR_6} expires 9000", "expires is set, was not set"),
    "6 hops": ("append default via {o6} dev rail1 src {a6} table 1001", "hops is (65537, 65537), was none"),
}
"""Commands of `ip route`, and what CHECK says of a route of rail 1."""
UNREACHABLE_CHANGES = {
    "4 type": ("replace blackhole default table 1001", "type is 6, was 7"),
    "4 metric": ("del unreachable default table 1001; add unreachable default table 1001 metric 5", "metric is 5, was"),
    "6 type": ("del unreachable default table 1001; add blackhole default table 1001", "type is 6, was 7"),
    "6 metric": ("del unreachable default table 1001; add unreachable default table 1001 metric 5", "metric is 5, was"),
}

RULE_CHANGES = {
    "from": ("from {o}", "src is {o}, was {a}"),
    "from prefix": ("from {s}", "src_prefix is "),
    "to": ("from {a} to {o}", "dst is {o}, was none"),
    "not": ("not from {a}", "invert is True, was False"),
    "iif": ("from {a} iif rail0", "iif is rail0, was none"),
    "oif": ("from {a} oif rail0", "oif is rail0, was none"),
    "fwmark": ("from {a} fwmark 5", "fwmark is 5, was 0"),
    "fwmask": ("from {a} fwmark 0/0xff", "fwmask is 255, was 4294967295"),
    "no fwmark": ("from {a} fwmark 0/0xffffffff", "fwmark is 0/0xffffffff, was not set"),
    "tos": ("from {a} tos 0x10", "tos is 16, was not set"),
    "ipproto": ("from {a} ipproto tcp", "ipproto is 6, was not set"),
    "sport": ("from {a} sport 5", "sport is 05000500, was not set"),
    "dport": ("from {a} dport 5", "dport is 05000500, was not set"),
    "uidrange": ("from {a} uidrange 5-6", "uidrange is 0500000006000000, was not set"),
    "tun_id": ("from {a} tun_id 5", "tun_id is 0000000000000005, was not set"),
    "suppress_prefixlength": ("from {a} suppress_prefixlength 0", "suppress_prefixlength is 00000000, was not set"),
    "suppress_ifgroup": ("from {a} suppress_ifgroup 5", "suppress_ifgroup is 05000000, was not set"),
    "priority": ("from {a} priority 1009", "is missing"),
    "table": ("from {a} lookup 1002", "table is 1002, was 1001"),
    "action": ("from {a} prohibit", "action is 8, was 1"),
}
"""What selects in place of the rule of rail 1, and what CHECK says."""
FENCE_CHANGES = {
    "not": ("to {r}", "invert is False, was True"),
    "to": ("not to {s}", "dst_prefix is "),
    "table": ("not to {r} lookup 1001", "table is 1001, was 254"),
    "tos": ("not to {r} tos 0x10", "tos is 16, was not set"),
    "suppress_prefixlength": ("not to {r} suppress_prefixlength 0", "suppress_prefixlength is 00000000, was not set"),
}


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose rails are joined by routers."""
    with made(tmp_path_factory.mktemp("routed"), planned(DUAL)) as node:
        node.start()
        yield node


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose rails are apart."""
    with made(tmp_path_factory.mktemp("isolated"), planned(SCHEMES["isolated"])) as node:
        node.start()
        yield node


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_check_of_an_untouched_pod_is_silent_in_every_scheme(tmp_path: Path, scheme: str) -> None:
    with made(tmp_path, planned(SCHEMES[scheme])) as node:
        node.start()
        for mode in ("macvlan", "move"):
            pod = node.pod()
            answer = node.add(pod, mode=mode)
            assert node.call("CHECK", pod, prevResult=answer).printed == b""
            node.delete(pod)


def test_a_check_of_two_attachments_of_a_pod_is_silent(routed: Node) -> None:
    pod = routed.pod()
    other = Pod(pod.path, pod.container, "net2")
    answers = routed.add(pod, rails=[0]), routed.add(other, rails=[1])
    assert routed.call("CHECK", pod, prevResult=answers[0]).printed == b""
    assert routed.call("CHECK", other, prevResult=answers[1]).printed == b""
    routed.delete(other)
    routed.delete(pod)


def test_a_check_is_silent_about_what_a_pod_adds_beside(routed: Node) -> None:
    pod = routed.pod()
    answer = routed.add(pod)
    words = _list_words(answer, 4)
    for command in (
        "address add {a}/26 dev rail1",
        "route add default via {o} dev rail1 table 1001 metric 9",
        "rule add from {a} tos 0x10 priority 1001 lookup main",
    ):
        run_ip(pod.path, *command.format(**words).split())
    assert routed.call("CHECK", pod, prevResult=answer).printed == b""
    routed.delete(pod)


@pytest.mark.parametrize("case", ADDRESS_CHANGES)
def test_a_check_names_what_differs_in_an_address(routed: Node, case: str) -> None:
    commands, difference = ADDRESS_CHANGES[case]
    _assert_named(routed, "rail 1: address {a" + case[0] + "}", difference, *_prefix("address", commands))


@pytest.mark.parametrize("case", ROUTE_CHANGES)
def test_a_check_names_what_differs_in_a_route(routed: Node, case: str) -> None:
    commands, difference = ROUTE_CHANGES[case]
    _assert_named(routed, "rail 1: route ", difference, *_prefix(f"-{case[0]} route", commands))


@pytest.mark.parametrize("case", UNREACHABLE_CHANGES)
def test_a_check_names_what_differs_in_an_unreachable_route(isolated: Node, case: str) -> None:
    commands, difference = UNREACHABLE_CHANGES[case]
    _assert_named(isolated, "rail 1: route ", difference, *_prefix(f"-{case[0]} route", commands))


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("case", RULE_CHANGES)
def test_a_check_names_what_differs_in_a_rule(routed: Node, case: str, version: int) -> None:
    selector, difference = RULE_CHANGES[case]
    rule = _complete(selector, "priority 1001", "lookup 1001")
    _assert_named(routed, "rail 1: rule 1001 ", difference, "del priority 1001", f"add {rule}", ip_version=version)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("case", FENCE_CHANGES)
def test_a_check_names_what_differs_in_the_fence(routed: Node, case: str, version: int) -> None:
    selector, difference = FENCE_CHANGES[case]
    rule = _complete(selector, "priority 999", "lookup main")
    _assert_named(routed, "rail 0: rule 999 ", difference, "del priority 999", f"add {rule}", ip_version=version)


def _prefix(kind: str, commands: str) -> list[str]:
    """Return each of several commands with the kind of object that it changes."""
    return [f"{kind} {command}" for command in commands.split("; ")]


def _complete(selector: str, priority: str, lookup: str) -> str:
    """Return a rule with its priority and table, unless the selector has others."""
    words = [selector, *(() if "priority" in selector else (priority,))]
    return " ".join([*words, *(() if "lookup" in selector or "prohibit" in selector else (lookup,))])


def _assert_named(node: Node, subject: str, difference: str, *commands: str, ip_version: int = 0) -> None:
    """Attach a pod, change it by `ip`, and see that CHECK refuses, and names the subject and the difference.

    With `ip_version`, the commands are of `ip rule`.
    """
    pod = node.pod()
    answer = node.add(pod)
    words = _list_words(answer, ip_version)
    for command in commands:
        run_ip(pod.path, *(f"-{ip_version} rule {command}" if ip_version else command).format(**words).split())
    done = node.call("CHECK", pod, prevResult=answer)
    assert (done.status, done.json["code"]) == (1, 102)
    assert any(
        text.startswith(subject.format(**words)) and difference.format(**words) in text
        for text in done.json["msg"].split("; ")
    ), done.json["msg"]
    node.delete(pod)
    node.unpin(pod)


def _list_words(answer: dict[str, Any], ip_version: int) -> dict[str, str]:
    """Return address, gateway, subnet, another address of the subnet and supernet of rail 1 for both IP versions."""
    words = {"r4": "10.0.0.0/12", "r6": "fd00:10::/44"}
    for address in answer["ips"]:
        interface = ip_interface(address["address"])
        if address["interface"] == 1:
            values = (interface.ip, address["gateway"], interface.network, interface.ip + 9)
            words |= {f"{name}{interface.version}": str(value) for name, value in zip("agso", values, strict=True)}
    return words | {name: words[f"{name}{ip_version}"] for name in "agsor" if ip_version}
