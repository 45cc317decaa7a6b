"""Mode macvlan, through the real executable, on a real kernel."""

from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_interface
from pathlib import Path
from socket import AF_INET, create_connection, create_server

import pytest

from tests.cli.json_page import check_document
from tests.node.rails.node import FABRIC, RAILS, Agent, Inside, Node, Pod, inside, made, planned
from trackbed.host.journal_records import frame_record, parse_records
from trackbed.kernel.netlink import addresses, links, rules
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status
from trackbed.node.rails.errors import Code
from trackbed.node.rails.protocol import VERSIONS

pytestmark = [pytest.mark.needs("root"), pytest.mark.usefixtures("agent")]

NAMES = [f"rail{rail}" for rail in range(RAILS)]


def _texts(state: Inside) -> set[str]:
    return {
        f"{a.address >> 24}.{a.address >> 16 & 255}.{a.address >> 8 & 255}.{a.address & 255}/{a.prefix}"
        for a in state.addresses
        if a.family == AF_INET and a.index >= 65536
    }


def _rail_rules(state: Inside) -> list[tuple[int, int]]:
    return [(rule.priority, rule.table) for rule in state.rules if 900 < rule.priority < 2000]


def test_one_call_attaches_all_rails(node: Node) -> None:
    pod = node.pod()
    answer = node.add(pod)
    state = inside(pod.path)
    assert state.rails == NAMES
    assert [interface["name"] for interface in answer["interfaces"]] == NAMES
    assert {address["address"] for address in answer["ips"]} == _texts(state)
    assert {i["name"]: (i["mac"], i["mtu"]) for i in answer["interfaces"]} == {
        name: (state.links[name].mac, state.links[name].mtu) for name in NAMES
    }
    assert {interface["sandbox"] for interface in answer["interfaces"]} == {str(pod.path)}


def test_interfaces_are_called_as_the_fabric_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    with made(tmp_path_factory.mktemp("names"), planned(f"{FABRIC}  names: {{pod: 'net{{number}}'}}\n")) as node:
        node.start()
        pod = node.pod()
        answer = node.add(pod)
        assert [interface["name"] for interface in answer["interfaces"]] == [f"net{rail + 1}" for rail in range(RAILS)]
        assert set(inside(pod.path).links) == {"lo", *(f"net{rail + 1}" for rail in range(RAILS))}
        node.delete(pod)
        assert set(inside(pod.path).links) == {"lo"}


def test_traffic_of_a_rail_keeps_to_it(node: Node) -> None:
    pod = node.pod()
    answer = node.add(pod)
    state = inside(pod.path)
    assert _rail_rules(state) == [(999, 254), *((1000 + rail, 1000 + rail) for rail in range(RAILS))]
    for rail, address in enumerate(answer["ips"]):
        table = [route for route in state.routes if route.table == 1000 + rail and route.family == AF_INET]
        gateway = int(ip_interface(address["gateway"]).ip)
        assert [(route.prefix, route.gateway) for route in table] == [(0, gateway), (27, 0)]
        assert {route.oif for route in table} == {state.links[f"rail{rail}"].index}
    with enter_netns(pod.path):
        folder = Path("/proc/sys/net/ipv4/conf/rail3")
        conf = [(folder / key).read_text() for key in ("rp_filter", "arp_ignore", "arp_announce")]
    assert conf == ["2\n", "1\n", "2\n"]


def test_a_pod_reaches_what_is_on_its_rail(node: Node) -> None:
    pod = node.pod()
    address = ip_interface(node.add(pod)["ips"][2]["address"])
    with Socket(netns=node.segment) as far:
        index = next(link.index for link in links.list_links(far) if link.name == "far2")
        far.send(
            [addresses.build_add_address(addresses.Address(index, AF_INET, int(address.ip) - 2, 27))]
        )  # the gateway's
    assert _answers_tcp(node, pod, str(address.ip - 2))


def _answers_tcp(node: Node, pod: Pod, address: str) -> bool:
    with enter_netns(node.segment):
        listening = create_server((address, 0))
    with listening, enter_netns(pod.path), create_connection(listening.getsockname(), timeout=5):
        return True


def test_only_the_rails_asked_for_are_attached(node: Node) -> None:
    pod = node.pod()
    assert [interface["name"] for interface in node.add(pod, rails=[5, 2])["interfaces"]] == ["rail2", "rail5"]
    assert inside(pod.path).rails == ["rail2", "rail5"]


def test_two_attachments_of_a_pod_come_and_go_alone(node: Node) -> None:
    pod = node.pod()
    other = Pod(pod.path, pod.container, "net2")
    node.add(pod, rails=[0, 1])
    node.add(other, rails=[6])
    node.delete(pod)
    state = inside(pod.path)
    assert (state.rails, _rail_rules(state)) == (["rail6"], [(999, 254), (1006, 1006)])
    node.delete(other)
    assert _rail_rules(inside(pod.path)) == []


def test_a_rail_that_the_pod_has_already_is_refused_and_stays_as_it_is(node: Node) -> None:
    pod = node.pod()
    answer = node.add(pod)
    done = node.call("ADD", Pod(pod.path, pod.container, "net2"), rails=[0])
    assert done.json["msg"] == f"rail 0: the pod has it already, as {pod.container[:12]}/net1"
    assert node.call("CHECK", pod, prevResult=answer).status == 0


def test_a_delete_leaves_nothing(node: Node) -> None:
    pod = node.pod()
    before = inside(pod.path)
    node.add(pod)
    node.delete(pod)
    assert inside(pod.path) == before
    assert read_status(node.socket)["attachments"] == []


def test_a_delete_is_good_any_number_of_times(node: Node) -> None:
    pod = node.pod()
    node.delete(pod)
    node.add(pod)
    node.delete(pod)
    node.delete(pod)


@pytest.mark.parametrize("netns", ["kept", "left out", "elsewhere"])
def test_a_delete_frees_the_addresses_when_the_namespace_is_gone(node: Node, netns: str) -> None:
    pod = node.pod()
    node.add(pod)
    node.unpin(pod)
    path = {"kept": str(pod.path), "left out": "", "elsewhere": "/no/such/netns"}[netns]
    assert node.call("DEL", pod, {"CNI_NETNS": path}).status == 0
    assert set(read_status(node.socket)["free"].values()) == {28}


def test_a_delete_for_a_namespace_that_never_was_is_good(node: Node) -> None:
    assert node.call("DEL", Pod(node.folder / "never")).status == 0


def test_a_path_that_names_another_namespace_by_now_is_left_alone(node: Node) -> None:
    pod, other = node.pod(), node.pod()
    node.add(pod)
    node.add(other)
    node.unpin(pod)
    pod.path.symlink_to(other.path)
    node.delete(pod)
    assert inside(other.path).rails == NAMES
    pod.path.unlink()


def test_an_add_asked_twice_answers_the_same_and_changes_nothing(node: Node) -> None:
    pod = node.pod()
    first = node.add(pod)
    before = inside(pod.path)
    assert node.add(pod) == first
    assert inside(pod.path) == before
    status = read_status(node.socket)
    assert len(status["attachments"]) == 1
    check_document("agent status", status)


def test_an_add_asked_again_repairs_what_is_broken(node: Node) -> None:
    pod = node.pod()
    first = node.add(pod)
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_delete_link(inside(pod.path).links["rail4"].index)])
    assert node.add(pod) == first
    assert inside(pod.path).rails == NAMES


def test_an_add_with_other_rails_replaces_the_attachment(node: Node) -> None:
    pod = node.pod()
    node.add(pod)
    node.add(pod, rails=[1])
    assert inside(pod.path).rails == ["rail1"]


def test_a_container_that_comes_again_in_a_new_namespace_is_attached_there(node: Node) -> None:
    pod = node.pod()
    node.add(pod)
    node.unpin(pod)
    again = node.pod(container=pod.container)
    node.add(again)
    assert inside(again.path).rails == NAMES
    assert len(read_status(node.socket)["attachments"]) == 1


def test_a_chained_call_passes_on_what_came_before(node: Node) -> None:
    previous = {
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}],
        "ips": [],
        "routes": [],
        "dns": {"search": ["a"]},
    }
    answer = node.add(node.pod(), prevResult=previous)
    assert [interface["name"] for interface in answer["interfaces"]] == ["eth0", *NAMES]
    assert (answer["ips"][0]["interface"], answer["dns"]) == (1, {"search": ["a"]})


def test_the_older_version_is_answered_in_its_own_words(node: Node) -> None:
    answer = node.add(node.pod(), cniVersion="1.0.0")
    assert answer["cniVersion"] == "1.0.0"
    assert "mtu" not in answer["interfaces"][0]


def test_an_address_is_not_given_to_the_next_pod_at_once(node: Node) -> None:
    first, second = node.pod(), node.pod()
    taken = node.add(first)["ips"][0]["address"]
    node.delete(first)
    assert node.add(second)["ips"][0]["address"] != taken


def test_ten_at_once_share_no_address(node: Node) -> None:
    pods = [node.pod() for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(node.add, pods))
    chosen = [address["address"] for answer in answers for address in answer["ips"]]
    assert (len(chosen), len(set(chosen))) == (80, 80)
    assert all(inside(pod.path).rails == NAMES for pod in pods)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(node.delete, pods))
    assert not any(inside(pod.path).rails for pod in pods)
    assert set(read_status(node.socket)["free"].values()) == {28}


def test_a_check_of_what_is_sound_is_silent(node: Node) -> None:
    pod = node.pod()
    answer = node.add(pod)
    done = node.call("CHECK", pod, prevResult=answer)
    assert (done.status, done.printed) == (0, b"")


BROKEN = {
    "rule": "rail 3: rule 1003 from 10.6.0.35/32 lookup 1003 is missing",
    "address": "rail 3: address 10.6.0.35/27 is missing from rail3",
    "link": "rail 3: rail3 is missing",
    "down": "rail 3: rail3 is down",
    "mtu": "rail 3: MTU of rail3 is 1400, was 9000",
    "switch": "rail 3: rp_filter of rail3 is 1, was 2",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_check_names_what_differs(node: Node, fault: str) -> None:
    pod = node.pod()
    answer = node.add(pod)
    _break(pod, fault)
    done = node.call("CHECK", pod, prevResult=answer)
    assert (done.status, done.json["code"]) == (1, 102)
    assert BROKEN[fault] in done.json["msg"].split("; ")


def _break(pod: Pod, fault: str) -> None:
    state = inside(pod.path)
    index = state.links["rail3"].index
    address = next(a for a in state.addresses if a.index == index and a.family == AF_INET)
    messages = {
        "rule": lambda: rules.build_delete_rule(next(rule for rule in state.rules if rule.priority == 1003)),
        "address": lambda: addresses.build_delete_address(address),
        "link": lambda: links.build_delete_link(index),
        "down": lambda: links.build_set_link(index, up=False),
        "mtu": lambda: links.build_set_link(index, mtu=1400),
        "switch": lambda: links.build_set_link(index, ipv4_conf={"rp_filter": 1}),
    }
    with Socket(netns=pod.path) as sock:
        sock.send([messages[fault]()])


@pytest.mark.parametrize("address", [[], {}, None, 5])
def test_a_check_of_a_result_whose_address_is_no_text_names_what_it_lacks(node: Node, address: object) -> None:
    pod = node.pod()
    node.add(pod, rails=[0])
    done = node.call("CHECK", pod, prevResult={"ips": [{"address": address}]})
    assert (done.json["code"], done.json["msg"].startswith("rail 0: prevResult lacks 10.0.")) == (102, True)


def test_a_check_without_attachment_or_result_fails(node: Node) -> None:
    pod = node.pod()
    assert node.call("CHECK", pod).json["msg"] == "CHECK needs prevResult, the result of the ADD"
    done = node.call("CHECK", pod, prevResult={})
    assert done.json["msg"] == f"no rails are attached to {pod.container}/net1"


def test_a_collection_removes_what_is_not_listed(node: Node) -> None:
    kept, stale, foreign = node.pod(), node.pod(), node.pod()
    node.add(kept)
    node.add(stale)
    node.add(foreign, name="other-network")
    valid = {"cni.dev/valid-attachments": [{"containerID": kept.container, "ifname": "net1"}]}
    done = node.call("GC", **valid)
    assert (done.status, done.printed) == (0, b"")
    assert [inside(pod.path).rails for pod in (kept, stale, foreign)] == [NAMES, [], NAMES]


def test_a_collection_without_list_removes_nothing(node: Node) -> None:
    pod = node.pod()
    node.add(pod)
    assert (node.call("GC").status, node.call("GC").printed) == (0, b"")
    assert inside(pod.path).rails == NAMES


def test_status_and_version_are_good(node: Node) -> None:
    assert node.call("STATUS").printed == b""
    assert node.call("VERSION").json == {"cniVersion": "1.1.0", "supportedVersions": list(VERSIONS)}


def test_a_missing_port_is_named_and_nothing_stays(node: Node) -> None:
    with Socket(netns=node.netns) as host:
        host.send([links.build_delete_link(inside(node.netns).links["rail5"].index)])
    pod = node.pod()
    before = inside(pod.path)
    done = node.call("ADD", pod)
    assert (done.status, done.json) == (
        1,
        {
            "cniVersion": "1.1.0",
            "code": 100,
            "msg": "rail 5: port rail5 is not on this node",
            "details": "`trackbed doctor` on this node says why and what to do",
        },
    )
    assert inside(pod.path) == before
    assert set(read_status(node.socket)["free"].values()) == {28}


def test_a_refusal_half_way_is_undone_and_told_in_the_kernels_words(node: Node) -> None:
    pod = node.pod()
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_create_veth(links.VethEnd("rail6"), links.VethEnd("rail6x"))])
    before = inside(pod.path)
    done = node.call("ADD", pod)
    assert done.status == 1
    assert done.json["code"] == Code.EXISTS
    assert done.json["msg"].startswith("rail 6: cannot create rail6 on port rail6: File exists")
    assert inside(pod.path) == before
    assert set(read_status(node.socket)["free"].values()) == {28}


def test_a_port_with_a_smaller_mtu_than_planned_is_told(node: Node) -> None:
    with Socket(netns=node.netns) as host:
        host.send([links.build_set_link(inside(node.netns).links["rail0"].index, mtu=1500)])
    done = node.call("ADD", node.pod())
    assert done.status == 1
    assert done.json["msg"].startswith("rail 0: cannot create rail0 on port rail0: ")


def test_a_full_rail_is_told(node: Node) -> None:
    pods = [node.pod() for _ in range(29)]
    for pod in pods[:28]:
        node.add(pod, rails=[7])
    done = node.call("ADD", pods[28], rails=[7])
    assert (done.json["code"], done.json["msg"]) == (101, "rail 7: all 28 addresses are taken")
    node.delete(pods[9])
    node.add(pods[28], rails=[7])


BAD_CALLS = {
    "the node's own namespace": ({"CNI_NETNS": "own"}, {}, 4, "CNI_NETNS {own} is the node's own network namespace"),
    "a file": ({"CNI_NETNS": "/etc/passwd"}, {}, 4, "CNI_NETNS /etc/passwd is no network namespace"),
    "another kind of namespace": (
        {"CNI_NETNS": "/proc/self/ns/mnt"},
        {},
        4,
        "CNI_NETNS /proc/self/ns/mnt is no network namespace",
    ),
    "nothing": ({"CNI_NETNS": "/no/such"}, {}, 3, "CNI_NETNS /no/such: No such file or directory"),
    "a rail the node lacks": ({}, {"rails": [8]}, 7, "rails names 8, but node gpu-1 has rails 0, 1, 2, 3, 4, 5, 6, 7"),
    "an unknown mode": ({}, {"mode": "vf"}, 7, 'mode is "vf"; it must be one of macvlan, sriov, move, or left out'),
}


@pytest.mark.parametrize(("env", "fields", "code", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_changes_nothing(
    node: Node, env: dict[str, str], fields: dict[str, object], code: int, message: str
) -> None:
    netns = str(node.netns)
    done = node.call(
        "ADD", node.pod(), {key: netns if value == "own" else value for key, value in env.items()}, **fields
    )
    assert (done.status, done.json["code"], done.json["msg"]) == (1, code, message.format(own=netns))
    assert read_status(node.socket)["attachments"] == []


def test_without_record_a_delete_still_clears_the_pod(node: Node, agent: Agent) -> None:
    pod = node.pod()
    before = inside(pod.path)
    node.add(pod)
    _forget_everything(node, agent)
    node.delete(pod)
    assert inside(pod.path) == before


def test_without_record_no_address_is_given_twice(node: Node, agent: Agent) -> None:
    first, second = node.pod(), node.pod()
    taken = {address["address"] for address in node.add(first)["ips"]}
    _forget_everything(node, agent)
    assert not taken & {address["address"] for address in node.add(second)["ips"]}


def test_without_record_an_add_sets_the_pod_up_anew(node: Node, agent: Agent) -> None:
    pod = node.pod()
    node.add(pod)
    _forget_everything(node, agent)
    answer = node.add(pod)
    assert {address["address"] for address in answer["ips"]} == _texts(inside(pod.path))
    assert node.call("CHECK", pod, prevResult=answer).status == 0


def test_another_boot_has_no_attachments(node: Node, agent: Agent) -> None:
    node.add(node.pod())
    agent.kill()
    journal = node.state / "journal"
    payloads = [payload.replace(b'"boot":"', b'"boot":"x') for payload in parse_records(journal.read_bytes()).payloads]
    journal.write_bytes(b"".join(map(frame_record, payloads)))
    node.start()
    assert read_status(node.socket)["attachments"] == []


def _forget_everything(node: Node, agent: Agent) -> None:
    agent.kill()
    (node.state / "journal").unlink()
    node.start()


def test_both_ip_versions_are_attached(tmp_path_factory: pytest.TempPathFactory) -> None:
    both = FABRIC.replace("ipv4NodePrefix: 27", "ipv4NodePrefix: 27, ipv6: 'fd00::/32'")
    with made(tmp_path_factory.mktemp("both"), planned(both)) as node:
        node.start()
        pod = node.pod()
        before = inside(pod.path)
        answer = node.add(pod)
        assert len(answer["ips"]) == 16
        assert node.call("CHECK", pod, prevResult=answer).status == 0
        node.delete(pod)
        assert inside(pod.path) == before
