"""Address conflicts, with a real stranger on the segment."""

from collections.abc import Callable
from socket import AF_INET
from typing import Any

import pytest

from tests.node.rails.node import Agent, Node, inside
from tests.waiting import wait_until
from trackbed.kernel.netlink import addresses
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status

pytestmark = [pytest.mark.needs("root"), pytest.mark.usefixtures("agent")]


def _until(node: Node, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask the agent how it is until `met`."""
    wait_until(lambda: met(read_status(node.socket)), lambda: str(read_status(node.socket)))
    return read_status(node.socket)


def _stranger(node: Node, rail: int, address: int) -> str:
    link = inside(node.segment).links[f"far{rail}"]
    with Socket(netns=node.segment) as sock:
        sock.send([addresses.build_add_address(addresses.Address(link.index, AF_INET, address, 27))])
    return link.mac


def test_a_stranger_with_the_pods_address_is_reported(node: Node, agent: Agent) -> None:
    block = node.plan.ports[3].v4
    assert block
    mac = _stranger(node, 3, block.pods_first)
    pod = node.pod()
    answer = node.add(pod)
    status = _until(node, lambda status: bool(status["conflicts"]))
    assert status["conflicts"] == [
        {"container": pod.container, "ifname": "net1", "rail": 3, "address": "10.6.0.35", "other": mac}
    ]
    message = f"rail 3: 10.6.0.35 is also used by {mac}; "
    message += "find that MAC in the leaf's table and take the address off that station"
    assert message in agent.log()
    assert node.call("CHECK", pod, prevResult=answer).json["msg"] == message
    node.delete(pod)
    assert read_status(node.socket)["conflicts"] == []


def test_a_pod_that_is_garbage_collected_has_no_conflicts(node: Node) -> None:
    block = node.plan.ports[3].v4
    assert block
    _stranger(node, 3, block.pods_first)
    node.add(node.pod())
    _until(node, lambda status: bool(status["conflicts"]))
    assert node.call("GC", None, **{"cni.dev/valid-attachments": []}).status == 0
    assert read_status(node.socket)["conflicts"] == []


def test_without_a_stranger_nothing_is_reported_and_the_watch_ends(node: Node) -> None:
    node.add(node.pod())
    status = _until(node, lambda status: status["watched"] == 0)
    assert status["conflicts"] == []


def test_a_delete_ends_the_watch(node: Node) -> None:
    pod = node.pod()
    node.add(pod)
    node.delete(pod)
    assert _until(node, lambda status: status["watched"] == 0)["conflicts"] == []
