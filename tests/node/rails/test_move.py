"""Mode move, through the real executable, on a real kernel."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import AF_INET, AF_INET6

import pytest

from tests.node.rails.node import RAILS, Agent, Inside, Node, inside
from trackbed.kernel.netlink import addresses, links, routes
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status

pytestmark = [pytest.mark.needs("root"), pytest.mark.usefixtures("agent")]

NAMES = [f"rail{rail}" for rail in range(RAILS)]


def _furnish(node: Node) -> None:
    """Give each port what a host has on it: addresses, an own table, a static route, switches."""
    state = inside(node.netns).links
    messages = []
    for port in node.plan.ports:
        index, block = state[port.netdev].index, port.v4
        assert block
        by = partial(routes.Route, AF_INET, oif=index, prefsrc=block.address, gateway=block.gateway)
        messages += [
            links.build_set_link(index, ipv4_conf={"rp_filter": 2, "arp_ignore": 1}),
            addresses.build_add_address(addresses.Address(index, AF_INET, block.address, block.prefix)),
            addresses.build_add_address(
                addresses.Address(index, AF_INET6, (0xFD << 120) + index, 64, flags=addresses.IFA_F_NODAD)
            ),
            routes.build_add_route(by(table=100 + port.rail)),
            routes.build_add_route(by(table=254, dst=192 << 24, prefix=16, metric=port.rail + 1)),
        ]
    with Socket(netns=node.netns) as host:
        host.send(messages)


def _settled(path: Path) -> Inside:
    """What is in a namespace, without what only counts, and without the kernel's own IPv6 addresses."""
    state = inside(path)
    return replace(
        state,
        links={
            name: link._replace(
                carrier_up_count=0,
                carrier_down_count=0,
                flags=link.flags & links.IFF_UP,
                operstate="",
                carrier=True,
            )
            for name, link in state.links.items()
        },
        addresses=tuple(a for a in state.addresses if a.scope == 0),
        routes=tuple(sorted((r for r in state.routes if r.family == AF_INET), key=repr)),
    )


def test_the_ports_are_in_the_pod_and_nowhere_else(node: Node) -> None:
    pod = node.pod()
    answer = node.add(pod, mode="move")
    assert (inside(pod.path).rails, inside(node.netns).rails) == (NAMES, [])
    assert [block["address"] for block in answer["ips"]] == [str(port.v4) for port in node.plan.ports]
    assert node.call("CHECK", pod, prevResult=answer).status == 0


def test_the_host_gets_everything_back(node: Node) -> None:
    _furnish(node)
    before = _settled(node.netns)
    pod = node.pod()
    node.add(pod, mode="move")
    node.delete(pod)
    after = _settled(node.netns)
    assert after.links == before.links
    assert sorted(after.addresses, key=repr) == sorted(before.addresses, key=repr)
    assert (after.routes, after.rules) == (before.routes, before.rules)
    with enter_netns(node.netns):
        assert Path("/proc/sys/net/ipv4/conf/rail3/arp_ignore").read_text() == "1\n"


def test_a_port_comes_back_although_its_index_was_taken(node: Node) -> None:
    pod = node.pod()
    index = inside(node.netns).links["rail2"].index
    node.add(pod, mode="move", rails=[2])
    with Socket(netns=node.netns) as host:
        host.send([links.build_create_veth(links.VethEnd("thief", index=index), links.VethEnd("thiefx"))])
    node.delete(pod)
    assert "rail2" in inside(node.netns).rails


def test_a_repeated_add_moves_the_port_itself_although_its_index_was_taken(node: Node) -> None:
    pod = node.pod()
    index = inside(node.netns).links["rail2"].index
    node.add(pod, mode="move", rails=[2])
    with Socket(netns=node.netns) as host:
        host.send([links.build_create_veth(links.VethEnd("thief", index=index), links.VethEnd("thiefx"))])
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_set_link(inside(pod.path).links["rail2"].index, up=False)])
    node.add(pod, mode="move", rails=[2])
    assert inside(pod.path).rails == ["rail2"]
    assert {"thief", "thiefx"} <= inside(node.netns).links.keys()


def test_a_delete_asked_again_after_half_the_work_finishes_it(node: Node, agent: Agent) -> None:
    _furnish(node)
    before = _settled(node.netns)
    pod = node.pod()
    node.add(pod, mode="move")
    agent.kill()
    with Socket(netns=pod.path) as sock, node.netns.open() as home:
        sock.send([links.build_set_link(inside(pod.path).links["rail1"].index, netns_fd=home.fileno())])
    node.start()
    node.delete(pod)
    after = _settled(node.netns)
    assert {name: link.mtu for name, link in after.links.items()} == {
        name: link.mtu for name, link in before.links.items()
    }
    assert {(a.address, a.prefix) for a in after.addresses} == {(a.address, a.prefix) for a in before.addresses}


def test_a_port_that_another_pod_has_is_told(node: Node) -> None:
    first, second = node.pod(), node.pod()
    node.add(first, mode="move", rails=[4])
    done = node.call("ADD", second, mode="move", rails=[3, 4])
    assert done.json["code"] == 101
    assert done.json["msg"] == f"rail 4: the port is in pod {first.container[:12]}/net1"
    assert inside(second.path).rails == []


def test_a_refusal_half_way_brings_all_ports_back(node: Node) -> None:
    _furnish(node)
    before = _settled(node.netns)
    pod = node.pod()
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_create_veth(links.VethEnd("rail6"), links.VethEnd("rail6x"))])
    done = node.call("ADD", pod, mode="move")
    assert done.status == 1
    assert done.json["msg"].startswith("rail 6: cannot move port rail6 into the pod: File exists")
    assert _settled(node.netns) == before


def test_an_add_asked_twice_answers_the_same(node: Node) -> None:
    pod = node.pod()
    assert node.add(pod, mode="move") == node.add(pod, mode="move")


def test_a_pod_that_ended_without_delete_gives_its_addresses_back(node: Node) -> None:
    pod = node.pod()
    node.add(pod, mode="move")
    node.unpin(pod)  # its veth ends vanish with it; a PF would fall back to the node
    node.delete(pod)
    assert read_status(node.socket)["attachments"] == []


def test_without_record_a_delete_still_brings_the_ports_back(node: Node, agent: Agent) -> None:
    pod = node.pod()
    node.add(pod, mode="move")
    agent.kill()
    (node.state / "journal").unlink()
    node.start()
    node.delete(pod)
    assert sorted(inside(node.netns).links) == sorted(["lo", *NAMES])
