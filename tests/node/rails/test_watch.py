"""Ports are looked at when something changed, and not else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.node.rails.node import Node
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.watch import MAX_AGE_SECONDS, Watch

pytestmark = pytest.mark.needs("root")


class Looks:
    """Counts how often somebody looked, at a clock that stands."""

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0
        self.fails = False

    def __call__(self) -> int:
        """Look once more."""
        if self.fails:
            raise PermissionError("no look")
        self.count += 1
        return self.count


@pytest.fixture
def place(node: Node) -> Path:
    """A namespace where nothing happens by itself."""
    return node.namespace("quiet")


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def watch(place: Path, looks: Looks) -> Iterator[Watch[int]]:
    with enter_netns(place):
        made = Watch(looks, lambda: looks.now)
    with closing(made):
        yield made


def test_the_ports_are_looked_at_again_when_one_has_changed(place: Path, watch: Watch[int]) -> None:
    assert [watch(), watch()] == [1, 1]
    with Socket(netns=place) as sock:
        sock.send([links.build_set_link(1, up=True)])
    assert [watch(), watch()] == [2, 2]


def test_what_the_kernel_does_not_announce_is_seen_in_time(looks: Looks, watch: Watch[int]) -> None:
    looks.now = MAX_AGE_SECONDS - 1
    assert watch() == 1
    looks.now = MAX_AGE_SECONDS + 1
    assert [watch(), watch()] == [2, 2]


def test_after_a_look_that_failed_the_next_one_is_not_put_off(looks: Looks, watch: Watch[int]) -> None:
    looks.now, looks.fails = MAX_AGE_SECONDS + 1, True
    for _ in range(2):
        with pytest.raises(PermissionError, match="no look"):
            watch()
    looks.fails = False
    assert watch() == 2
