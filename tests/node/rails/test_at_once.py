"""What a runtime asks at the same moment: nothing is given twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.examples import count_examples
from tests.node.rails.node import FABRIC, Node, Pod, inside, made, planned
from trackbed.node.rails.client import read_status

pytestmark = pytest.mark.needs("root")

ROUNDS = 20
CROWD, CROWD_ROUNDS = 30, count_examples(8)
FREE = 60
"""Addresses of a rail on a node with a prefix of 26 bits: 64 but four."""
NAMES = ["rail0", "rail1"]
FABRIC_OF_TWO = FABRIC.replace("rails: 8", "rails: 2").replace("Prefix: 27", "Prefix: 26")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with made(tmp_path, planned(FABRIC_OF_TWO)) as crowded_node:
        crowded_node.start()
        yield crowded_node


def _at_once(*calls: Callable[[], object]) -> list[object]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result() for done in [pool.submit(call) for call in calls]]


def _nothing_is_held(node: Node) -> None:
    status = read_status(node.socket)
    assert (status["attachments"], set(status["free"].values())) == ([], {FREE})


def test_two_adds_of_one_pod_get_the_same(node: Node) -> None:
    for _ in range(ROUNDS):
        pod = node.pod()
        first, second = _at_once(lambda: node.add(pod), lambda: node.add(pod))  # noqa: B023 - ends in this round
        assert first == second
        assert inside(pod.path).rails == NAMES
        assert len(read_status(node.socket)["attachments"]) == 1
        _at_once(lambda: node.delete(pod), lambda: node.delete(pod))  # noqa: B023 - as above
        assert inside(pod.path).rails == []
        _nothing_is_held(node)


def test_an_add_and_a_delete_of_one_pod_leave_all_or_nothing(node: Node) -> None:
    for _ in range(ROUNDS):
        pod = node.pod()
        _at_once(lambda: node.call("ADD", pod), lambda: node.delete(pod))  # noqa: B023 - as above
        assert inside(pod.path).rails == (NAMES if read_status(node.socket)["attachments"] else [])
        node.delete(pod)
        assert inside(pod.path).rails == []
        _nothing_is_held(node)


def _come_and_go(node: Node, pod: Pod) -> list[str]:
    """A pod's addresses, while it had them."""
    answer = node.add(pod)
    assert inside(pod.path).rails == NAMES
    node.delete(pod)
    return [address["address"] for address in answer["ips"]]


def test_thirty_pods_come_at_once_and_go_at_once(node: Node) -> None:
    for _ in range(CROWD_ROUNDS):
        pods = [node.pod() for _ in range(CROWD)]
        with ThreadPoolExecutor(CROWD) as pool:
            answers = list(pool.map(node.add, pods))
            addresses = [address["address"] for answer in answers for address in answer["ips"]]
            assert len(set(addresses)) == len(addresses) == CROWD * len(NAMES)
            assert all(inside(pod.path).rails == NAMES for pod in pods)
            list(pool.map(node.delete, pods))
        assert not any(inside(pod.path).rails for pod in pods)
        _nothing_is_held(node)
        list(map(node.unpin, pods))


def test_thirty_pods_come_while_others_go(node: Node) -> None:
    pods = [node.pod() for _ in range(CROWD)]
    for _ in range(4):
        with ThreadPoolExecutor(CROWD) as pool:
            results = list(pool.map(lambda pod: _come_and_go(node, pod), pods))
        assert all(len(addresses) == len(NAMES) for addresses in results)
        assert not any(inside(pod.path).rails for pod in pods)
        _nothing_is_held(node)
