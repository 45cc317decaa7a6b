"""A pod whose interfaces change all the time while they are deleted."""

from __future__ import annotations

import os
import socket
from typing import Any, cast

import pytest

from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import deletion
from trackbed.node.rails.batch import StepsRefusedError


class _Babbler:
    """A monitor that always has another announcement."""

    def __init__(self) -> None:
        self.count = 0
        self._fd = os.eventfd(1)

    def fileno(self) -> int:
        return self._fd

    def recvfrom(self, _: int) -> tuple[bytes, tuple[int, int]]:
        self.count += 1
        assert self.count < 10_000, "it is never done"
        return b"", (0, 1)


def test_announcements_without_end_are_left_once_the_kernel_has_acknowledged() -> None:
    reader_end, thread_end = socket.socketpair()
    thread_end.close()
    monitor = _Babbler()
    with reader_end:
        assert not deletion._wait_for_deletions(cast("Any", monitor), reader_end, {65536})  # noqa: SLF001 - no pod announces as reliably
    os.close(monitor.fileno())


@pytest.mark.needs("root")
@pytest.mark.parametrize(("guessed", "number"), [(False, 300), (True, 10)])
def test_interfaces_are_deleted_by_index_whatever_else_the_pod_puts_into_their_group(
    pod_netns: int, monkeypatch: pytest.MonkeyPatch, guessed: bool, number: int
) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _: 5)
    with Socket(netns=pod_netns) as sock:
        sock.send([links.build_create_bridge("br0")])
        bridge = links.get_link(sock, "br0").index
        sock.send([links.build_create_macvlan(f"upper{upper}", bridge) for upper in range(number)])
        indexes = [link.index for link in links.list_links(sock) if link.kind == "macvlan"]
        sock.send([links.build_set_link(1, group=5 | 1 << 31 if guessed else 7)])
        deletion.delete_by_index(sock, [*indexes, indexes[-1] + 1000])
        assert [link.name for link in links.list_links(sock)] == ["lo", "br0"]


@pytest.mark.needs("root")
def test_an_interface_that_the_kernel_cannot_delete_is_reported(pod_netns: int) -> None:
    with Socket(netns=pod_netns) as sock, pytest.raises(StepsRefusedError):
        deletion.delete_by_index(sock, [1])
