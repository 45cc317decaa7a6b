"""A pod with NET_ADMIN that has more names or routes than a listing takes, or sends what looks like the kernel's."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from socket import AF_INET

import pytest

from tests.node.rails.hostile import read_links
from tests.node.rails.node import Node, Pod, inside, netns_fd
from trackbed.kernel.netlink import codec, links, routes
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket, open_link_monitor
from trackbed.node.rails import deletion, protocol, recovery
from trackbed.node.rails.attacher import Attacher
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.errors import CniError
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.sandbox import MAX_ENTRIES
from trackbed.node.rails.store import Store

pytestmark = pytest.mark.needs("root", "ip", "nsenter")

MOST_NAMES = 496
"""Names of 127 bytes that the kernel gives one interface (rtnl_alt_ifname() of net/core/rtnetlink.c)."""


class Runtime:
    """Calls the handlers of an agent in this process, in the network namespace of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.start()

    def start(self) -> None:
        """Start the agent."""
        with enter_netns(self._node.netns):
            self._store = Store(Journal(self._node.state))
            self._attacher = Attacher(self._node.plan, self._store, "boot", None)
            self._handlers = Handlers(self._node.plan, self._store, Conflicts(), self._attacher)
            self._attacher.reconcile()

    def stop(self) -> None:
        """Stop the agent."""
        self._attacher.close()
        self._store.close()

    def call(self, command: str, pod: Pod, **fields: object) -> None:
        """Run a command that must succeed."""
        config = json.dumps(self._node.config(**fields)).encode()
        request = protocol.parse_request(self._node.environment(command, pod), config)
        with enter_netns(self._node.netns):
            self._handlers.handle(request, Phases(lambda: 0.0))


@pytest.fixture
def runtime(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setattr(recovery, "RETURN_SECONDS", 0)
    runtime = Runtime(node)
    yield runtime
    runtime.stop()


@pytest.mark.parametrize("count", [250, MOST_NAMES], ids=["a datagram", "all"])
def test_a_port_with_more_names_than_fit_into_a_listing_comes_home(node: Node, runtime: Runtime, count: int) -> None:
    before, pod = read_links(node.netns), node.pod()
    runtime.call("ADD", pod, mode="move", rails=[0])
    _add_names(pod.path, "rail0", count)
    runtime.call("DEL", pod)
    assert read_links(node.netns) == before


def test_an_interface_with_many_names_hides_no_port_behind_it(node: Node, runtime: Runtime) -> None:
    before, pod = read_links(node.netns), node.pod()
    runtime.call("ADD", pod, mode="move", rails=[0])
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_create_bridge("ahead")])
    _add_names(pod.path, "ahead", 250)
    runtime.call("DEL", pod)
    assert read_links(node.netns) == before


def test_a_port_that_comes_home_with_all_its_names_does_not_end_the_agent(node: Node, runtime: Runtime) -> None:
    pod = node.pod()
    runtime.call("ADD", pod, mode="move", rails=[0])
    _add_names(pod.path, "rail0", MOST_NAMES)
    with Socket(netns=pod.path) as sock, netns_fd(node.netns) as host:  # as the kernel does when the pod ends
        sock.send([links.build_set_link(65536, netns_fd=host)])
    runtime.stop()
    runtime.start()
    runtime.call("DEL", pod)
    assert inside(node.netns).links["rail0"].altnames == ()


def test_names_that_are_no_text_do_not_come_home_with_a_port(node: Node, runtime: Runtime) -> None:
    pod = node.pod()
    runtime.call("ADD", pod, mode="move", rails=[0])
    name = codec.pack_attribute(links.IFLA_ALT_IFNAME, b"\xff\xfe\0")
    message = links.build_add_altname(65536, "")
    with Socket(netns=pod.path) as sock:
        sock.send([message._replace(body=message.body[:16] + codec.pack_nested(links.IFLA_PROP_LIST, name))])
    runtime.call("DEL", pod)
    assert inside(node.netns).links["rail0"].altnames == ()


def test_a_pod_with_routes_without_number_is_not_read_to_the_end(node: Node, runtime: Runtime) -> None:
    pod = node.pod()
    runtime.call("ADD", pod, rails=[0])
    count = MAX_ENTRIES + 100
    with Socket(netns=pod.path) as sock:
        for first in range(0, count, 4000):
            numbers = range(first, min(first + 4000, count))
            sock.send([routes.build_add_route(_route((11 << 24) + number)) for number in numbers])
    with pytest.raises(CniError, match=f"more than {MAX_ENTRIES} entries"):
        runtime.call("CHECK", pod, prevResult={})
    runtime.stop()
    runtime.start()
    runtime.call("DEL", pod)
    assert "rail0" not in inside(pod.path).links


def test_a_process_of_the_pod_announces_no_deletion(node: Node) -> None:
    pod = node.pod()
    with enter_netns(pod.path):
        liar = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    reader_end, thread_end = socket.socketpair()
    forged = links.build_delete_link(65536)._replace(flags=0)
    with liar, reader_end, open_link_monitor(pod.path) as monitor:
        packed = bytearray(codec.pack_message(forged, 0))
        packed[6:8] = bytes(2)  # no NLM_F_REQUEST: an announcement
        liar.sendto(packed, (0, 1))
        thread_end.close()
        assert not deletion._wait_for_deletions(monitor, reader_end, {65536})  # noqa: SLF001 - no other caller waits


def _route(address: int) -> routes.Route:
    return routes.Route(AF_INET, table=100, dst=address, prefix=32, oif=65536, scope=routes.RT_SCOPE_LINK)


def _add_names(path: Path, netdev: str, count: int) -> None:
    with Socket(netns=path) as sock:
        index = links.get_link(sock, netdev).index
        sock.send([links.build_add_altname(index, f"{number:03d}".ljust(127, "x")) for number in range(count)])
