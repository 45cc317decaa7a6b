"""Pods with NET_ADMIN do anything to their interfaces between the calls of a runtime: the host is the same afterwards.

The namespaces, ports (veth ends) and calls are real. Models are two: RDMA devices (`kernel_rdma`), and what the kernel
does with hardware when a namespace ends (default_device_exit_net() of net/core/dev.c), since it deletes veth ends.
50 runs by default; TRACKBED_EXAMPLES=2000 for more.
"""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import AF_INET
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.examples import count_examples
from tests.node.rails.kernel_rdma import Device, RdmaKernel, RdmaSocket
from tests.node.rails.node import FABRIC, Inside, Node, inside, netns_fd, planned
from trackbed.kernel.netlink import addresses, codec, links, netns, routes
from trackbed.kernel.netlink import rdma as netlink_rdma
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.netns import enter_netns, read_inode
from trackbed.kernel.netlink.sockets import BatchError, Socket
from trackbed.node.rails import hardware, protocol, rdma, recovery
from trackbed.node.rails.attacher import Attacher
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.errors import CniError
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.identity import IdentifiedLink, choose_from_pod_links
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.store import Store

RAILS = 2
PODS = 3
HONEST = 0
"""The pod that changes nothing, and that nobody may disturb."""
FABRIC_OF_VFS = FABRIC.replace("  rails: 8\n", f"  rails: {RAILS}\n  vfs: {{count: 1, mtu: 4000}}\n")
FLAGS = links.IFF_UP | links.IFF_NOARP | links.IFF_PROMISC | links.IFF_ALLMULTI | links.IFF_MULTICAST
NAMES = ("rail0", "rail1", "rail0v0", "rail1v0", "eth0", "trackbed0", "trackbed1", "mgmt0", "dev65536")
"""Names that a pod chooses: of ports, of VFs, temporary ones, one of the host, one that the kernel chooses."""
INDEXES = (65536, 65537, 7, 77)
MACS = ("02:00:00:00:00:01", "0e:7b:0a:00:00:22")

hostile = st.integers(1, PODS - 1)
"""The number of a pod that may do anything."""
modes = st.sampled_from(["move", "sriov", "macvlan"])
rail_lists = st.sampled_from([[0, 1], [0], [1]])
choices = st.integers(0, 11)
"""The number of one of its interfaces; larger ones count again from the first."""


class World:
    """One node with its pods, for all runs: each leaves it as it was."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-")))
        node_plan = planned(FABRIC_OF_VFS)
        self.node = Node(
            folder, node_plan._replace(common=node_plan.common._replace(rdma_mode="exclusive")), self._stack
        )
        self.counter = itertools.count()
        self.calls: Counter[str] = Counter()
        """Number of calls by command and outcome."""
        self.rdma = RdmaKernel()
        self._furnish()
        self.hardware = {
            identity: link.name for link, identity in self.list_links(self.node.netns) if link.kind == "veth"
        }
        self.identities = {identity for _, identity in self.list_links(self.node.netns)}
        self.before = self.read_host()

    def close(self) -> None:
        """Delete the node."""
        self._stack.close()

    def _furnish(self) -> None:
        with Socket(netns=self.node.netns) as host, netns_fd(self.node.segment) as segment:
            host.send([links.build_create_bridge("mgmt0")])
            for rail in range(RAILS):
                far = links.VethEnd(f"far{rail}v0", netns_fd=segment)
                host.send([links.build_create_veth(links.VethEnd(f"rail{rail}v0", mtu=4000), far)])
                index = links.get_link(host, f"rail{rail}").index
                host.send(
                    [
                        addresses.build_add_address(
                            addresses.Address(index, AF_INET, (192 << 24) + (rail << 8) + 1, 24)
                        ),
                        routes.build_add_route(
                            routes.Route(
                                AF_INET, dst=(198 << 24) + (rail << 16), prefix=24, oif=index, table=100 + rail
                            )
                        ),
                        links.build_add_altname(index, f"slot{rail}"),
                    ]
                )
        host_inode = read_inode(self.node.netns)
        for number, netdev in enumerate(f"rail{rail}{vf}" for rail in range(RAILS) for vf in ("", "v0")):
            self.rdma.create(f"mlx5_{number}", f"0c42:a103:0000:000{number}", host_inode, netdev)

    def list_links(self, path: Path) -> list[IdentifiedLink]:
        """Return the interfaces of a namespace with their identities, without lo."""
        with Socket(netns=self.node.netns) as host, netns_fd(path) as namespace:
            return choose_from_pod_links(host, namespace, lambda pair: pair if pair.link.name != "lo" else None)

    def read_host(self) -> tuple[object, ...]:
        """Return the links, addresses, routes, rules and RDMA devices of the host."""
        state: Inside = inside(self.node.netns)
        listing = self.list_links(self.node.netns)
        keys = {link.index: identity for link, identity in listing}
        host_inode = read_inode(self.node.netns)
        return (
            {identity: read_fields(link) for link, identity in listing},
            {(keys.get(a.index), a.family, a.address, a.prefix) for a in state.addresses if a.family == AF_INET},
            {(keys.get(r.oif), r.table, r.dst, r.prefix, r.gateway) for r in state.routes if r.family == AF_INET},
            set(state.rules),
            {(d.index, d.name, d.netdev) for d in self.rdma.devices.values() if d.netns == host_inode},
        )

    def read_name(self, device_folder: Path) -> str | None:
        """Return the name of a VF's interface as sysfs does, while it is on the host."""
        netdev = f"{device_folder.parent.parent.name}v{device_folder.name.removeprefix('virtfn')}"
        present = {self.hardware.get(identity): link.name for link, identity in self.list_links(self.node.netns)}
        return present.get(netdev)

    def read_rdma_name(self, device_folder: Path) -> str | None:
        """Return the name of the RDMA device of a port or VF as sysfs does, while it is on the host."""
        port = device_folder.name == "device"
        netdev = device_folder.parent.name if port else f"{device_folder.parent.parent.name}v0"
        host_inode = read_inode(self.node.netns)
        present = (d.name for d in self.rdma.devices.values() if d.netdev == netdev and d.netns == host_inode)
        return next(present, None)

    def end_netns(self, path: Path) -> None:
        """Let a namespace end: the kernel returns hardware to the host, and deletes all else."""
        with Socket(netns=path) as sock, netns_fd(self.node.netns) as host:
            for link, identity in self.list_links(path):
                if identity in self.hardware:
                    taken = set(itertools.chain(*((n, *o.altnames) for n, o in inside(self.node.netns).links.items())))
                    clashes = [links.build_delete_altname(link.index, name) for name in taken & {*link.altnames}]
                    name = "dev%d" if link.name in taken else link.name
                    sock.send([*clashes, links.build_set_link(link.index, name=name, netns_fd=host)])
        self.rdma.end_netns(read_inode(path), read_inode(self.node.netns))
        netns.delete_netns(path)


def read_fields(link: Link) -> tuple[object, ...]:
    """Return what a pod can change of an interface."""
    flags, altnames = link.flags & FLAGS, set(link.altnames)
    return link.name, link.mac, link.mtu, flags, link.master, link.group, link.txqlen, link.alias, frozenset(altnames)


def build_create_plain(kind: str, name: str, index: int) -> codec.Message:
    """Return the message that creates an interface of a kind without further attributes."""
    kind_info = codec.pack_nested(links.IFLA_LINKINFO, codec.pack_attribute(links.IFLA_INFO_KIND, kind.encode()))
    body = bytes(4) + index.to_bytes(4, "little") + bytes(8) + codec.pack_string(links.IFLA_IFNAME, name)
    return codec.Message(links.RTM_NEWLINK, codec.NLM_F_CREATE | codec.NLM_F_EXCL, body + kind_info)


class Guest:
    """A pod: its namespace, one that it hides things in, and what its ADD gave it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.container = f"c{next(world.counter)}"
        self.path = world.node.namespace("pod")
        self.hidden = world.node.namespace("hidden")
        self.answer: dict[str, Any] | None = None
        self.state: object = None

    def try_send(self, path: Path, *messages: codec.Message) -> None:
        """Send messages in one of its namespaces, whatever the kernel thinks of them."""
        with suppress(BatchError), Socket(netns=path) as sock:
            sock.send(messages)

    def end(self) -> None:
        """End both namespaces."""
        for path in (self.hidden, self.path):
            self.world.end_netns(path)


class HostilePods(RuleBasedStateMachine):
    """Calls of a runtime for three pods, of which two do anything to their interfaces in between."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        shutil.rmtree(self.world.node.state, ignore_errors=True)
        self.world.counter = itertools.count()
        self.guests = [Guest(self.world) for _ in range(PODS)]
        self.ended: list[tuple[str, Path]] = []
        self._start_agent()

    def _start_agent(self) -> None:
        node = self.world.node
        with enter_netns(node.netns):
            self.store = Store(Journal(node.state))
            self.attacher = Attacher(node.plan, self.store, "boot", None)
            self.handlers = Handlers(node.plan, self.store, Conflicts(), self.attacher)
            self.attacher.reconcile()

    def _stop_agent(self) -> None:
        self.attacher.close()
        self.store.close()

    def _call(self, command: str, container: str, path: Path, **fields: object) -> dict[str, Any]:
        environment = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_IFNAME": "net1"}
        config = {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", **fields}
        request = protocol.parse_request(environment | {"CNI_NETNS": str(path)}, json.dumps(config).encode())
        self.world.calls[f"{command} refused"] += 1
        with enter_netns(self.world.node.netns):
            answer = self.handlers.handle(request, Phases(lambda: 0.0))
        self.world.calls.update({f"{command} refused": -1, command: 1})
        return json.loads(answer) if answer else {}

    @initialize(wishes=st.lists(st.tuples(modes, rail_lists), min_size=PODS, max_size=PODS))
    def begin(self, wishes: list[tuple[str, list[int]]]) -> None:
        """ADD for each pod, the hostile ones first."""
        for number, (mode, rails) in reversed(list(enumerate(wishes))):
            self.add(number, mode, rails)

    @rule(number=st.integers(0, PODS - 1), mode=modes, rails=rail_lists)
    def add(self, number: int, mode: str, rails: list[int]) -> None:
        """ADD, which may fail only because a device is in another pod, or because of what the pod itself did."""
        guest = self.guests[number]
        try:
            guest.answer = self._call("ADD", guest.container, guest.path, mode=mode, rails=rails)
        except CniError as error:
            guest.answer = None if self.store.get((guest.container, "net1")) is None else guest.answer
            if number == HONEST:
                if not any(
                    reason in error.message
                    for reason in ("in pod", "in another pod", "are taken", "not on this node", "not come back")
                ):
                    raise
                guest.answer = None
                self._call("DEL", guest.container, guest.path)
        guest.state = self._read_guest(guest)

    @rule(number=st.integers(0, PODS - 1))
    def delete(self, number: int) -> None:
        """DEL, which always succeeds."""
        guest = self.guests[number]
        self._call("DEL", guest.container, guest.path)
        guest.answer = None
        guest.state = self._read_guest(guest)

    @rule(number=st.integers(0, PODS - 1))
    def check(self, number: int) -> None:
        """CHECK, which succeeds for the pod that changed nothing."""
        guest = self.guests[number]
        try:
            self._call("CHECK", guest.container, guest.path, prevResult=guest.answer or {})
        except CniError:
            assert number != HONEST or guest.answer is None

    @rule(keep=st.lists(st.booleans(), min_size=PODS, max_size=PODS))
    def collect_garbage(self, keep: list[bool]) -> None:
        """GC, which always succeeds."""
        valid = [
            {"containerID": g.container, "ifname": "net1"} for g, kept in zip(self.guests, keep, strict=True) if kept
        ]
        self._call("GC", "c", Path("/"), **{"cni.dev/valid-attachments": valid})
        for guest, kept in zip(self.guests, keep, strict=True):
            if not kept:
                guest.answer = None
                guest.state = self._read_guest(guest)

    @rule()
    def restart(self) -> None:
        """The agent ends and starts again."""
        self._stop_agent()
        self._start_agent()

    @rule(number=hostile, choice=choices, name=st.sampled_from(NAMES), second=st.booleans())
    def rename(self, number: int, choice: int, name: str, *, second: bool) -> None:
        """Rename an interface, or give it a second name."""
        guest, path, link = self._find_link(number, choice)
        if link:
            down, renamed = links.build_set_link(link.index, up=False), links.build_set_link(link.index, name=name)
            guest.try_send(path, *([links.build_add_altname(link.index, name)] if second else [down, renamed]))

    @rule(number=hostile, choice=choices, index=st.sampled_from([None, *INDEXES]))
    def hide(self, number: int, choice: int, index: int | None) -> None:
        """Move an interface to another namespace of the pod, or back, perhaps with another index."""
        guest, path, link = self._find_link(number, choice)
        if link:
            other = guest.hidden if path == guest.path else guest.path
            with netns_fd(other) as target:
                guest.try_send(path, links.build_set_link(link.index, netns_fd=target, new_index=index))

    @rule(number=hostile, other=hostile, choice=choices)
    def hand_over(self, number: int, other: int, choice: int) -> None:
        """Move an interface into another hostile pod."""
        guest, path, link = self._find_link(number, choice)
        if link:
            with netns_fd(self.guests[other].path) as target:
                guest.try_send(path, links.build_set_link(link.index, netns_fd=target))

    @rule(
        number=hostile,
        kind=st.sampled_from(["veth", "veth into hidden", "bridge", "ifb"]),
        name=st.sampled_from(NAMES),
        index=st.sampled_from([0, *INDEXES]),
    )
    def plant(self, number: int, kind: str, name: str, index: int) -> None:
        """Create an interface."""
        guest = self.guests[number]
        if kind.startswith("veth"):
            with netns_fd(guest.hidden if "hidden" in kind else guest.path) as target:
                near, far = links.VethEnd(name, index=index), links.VethEnd(f"x{name}"[:15], netns_fd=target, index=2)
                guest.try_send(guest.path, links.build_create_veth(near, far))
        else:
            guest.try_send(guest.path, build_create_plain(kind, name, index))

    @rule(
        number=hostile,
        choice=choices,
        name=st.sampled_from(NAMES),
        mac=st.sampled_from(MACS),
        group=st.sampled_from([0, 0x54420000, 0x54420001]),
    )
    def stack_macvlan(self, number: int, choice: int, name: str, mac: str, group: int) -> None:
        """Create a macvlan on an interface, in our group."""
        guest, path, link = self._find_link(number, choice)
        if link:
            guest.try_send(path, links.build_create_macvlan(name, link.index, mac=mac, group=group))

    @rule(number=hostile, choice=choices)
    def delete_interface(self, number: int, choice: int) -> None:
        """Delete an interface; the kernel refuses that for hardware."""
        guest, path, link = self._find_link(number, choice)
        if link and all(
            present.index != link.index
            for present, identity in self.world.list_links(path)
            if identity in self.world.hardware
        ):
            guest.try_send(path, links.build_delete_link(link.index))

    @rule(number=hostile, choice=choices, which=st.sets(st.integers(0, 5), min_size=1, max_size=3))
    def change(self, number: int, choice: int, which: set[int]) -> None:
        """Change MAC, MTU, flags, labels or master of an interface."""
        guest, path, link = self._find_link(number, choice)
        if link:
            flags = links.IFF_PROMISC | links.IFF_ALLMULTI | links.IFF_NOARP
            changes = [
                links.build_set_link(link.index, mac=MACS[0]),
                links.build_set_link(link.index, mtu=1280),
                links.build_set_link(link.index, up=not link.is_up),
                links.build_set_flags(link.index, flags, flags | links.IFF_MULTICAST),
                links.build_set_labels(link.index, alias="evil", txqlen=1, group=0x54420000),
                links.build_set_link(1, group=0x54420000 + number),
            ]
            guest.try_send(path, *(changes[change] for change in sorted(which)))

    @rule(
        number=hostile,
        choice=choices,
        action=st.sampled_from(["rename", "hide", "create"]),
        name=st.sampled_from(["mlx5_0", "mlx5_1", "rxe0"]),
    )
    def change_rdma(self, number: int, choice: int, action: str, name: str) -> None:
        """Rename an RDMA device of the pod, move it away, or create a soft one with a device's name or GUID."""
        guest, kernel = self.guests[number], self.world.rdma
        inode = read_inode(guest.path)
        present: list[Device] = [device for device in kernel.devices.values() if device.netns == inode]
        if action == "create":
            kernel.create(name, "0c42:a103:0000:0000", inode)
        elif present:
            device = present[choice % len(present)]
            if action == "rename":
                kernel.rename(device, name)
            elif device.netdev:
                device.netns = read_inode(guest.hidden)

    @rule(number=hostile, pod_too=st.booleans())
    def end_namespaces(self, number: int, pod_too: bool) -> None:
        """The namespace for hiding ends, and perhaps the pod's own one; a new pod comes in its place."""
        guest = self.guests[number]
        if pod_too:
            guest.end()
            self.ended.append((guest.container, guest.path))
            self.guests[number] = Guest(self.world)
        else:
            self.world.end_netns(guest.hidden)
            guest.hidden = self.world.node.namespace("hidden")

    @rule()
    def delete_ended(self) -> None:
        """DEL for a pod whose namespace has ended, if there is one."""
        if self.ended:
            self._call("DEL", *self.ended.pop())

    @invariant()
    def the_host_has_only_its_own_interfaces(self) -> None:
        """Nothing of a pod is there, whatever it is called."""
        present = {identity for _, identity in self.world.list_links(self.world.node.netns)}
        assert present <= self.world.identities

    @invariant()
    def the_honest_pod_is_as_it_was(self) -> None:
        """Nobody disturbs it."""
        guest = self.guests[HONEST]
        assert guest.state is None or self._read_guest(guest) == guest.state

    def teardown(self) -> None:
        """End everything as a runtime does; the host is as before."""
        try:
            for guest in self.guests:
                self._call("DEL", guest.container, guest.path)
            for ended in self.ended:
                self._call("DEL", *ended)
            self._stop_agent()
            for guest in self.guests:
                guest.end()
            self._start_agent()
            assert self.store.list_entries() == ()
            assert self.world.read_host() == self.world.before
            self._stop_agent()
        except BaseException:
            HostilePods.world.close()
            HostilePods.world = World()
            raise

    def _read_guest(self, guest: Guest) -> object:
        """Return the content of a pod's namespace, without IPv6, whose link-local addresses come and change later."""
        state = inside(guest.path)
        return (
            {name: read_fields(link) for name, link in state.links.items()},
            {address for address in state.addresses if address.family == AF_INET},
            {(r.table, r.dst, r.prefix, r.oif, r.gateway, r.prefsrc) for r in state.routes if r.family == AF_INET},
        )

    def _find_link(self, number: int, choice: int) -> tuple[Guest, Path, Link | None]:
        """Return an interface of a pod by a number, which is drawn without regard to what there is."""
        guest = self.guests[number]
        present = [(path, link) for path in (guest.path, guest.hidden) for link, _ in self.world.list_links(path)]
        return guest, *(present[choice % len(present)] if present else (guest.path, None))


@contextmanager
def model_hardware(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Yield a world whose VFs and RDMA devices the agent sees."""
    monkeypatch.setattr(recovery, "RETURN_SECONDS", 0)

    def read_name(folder: Path) -> str | None:
        return HostilePods.world.read_name(folder)

    def read_rdma_name(folder: Path) -> str | None:
        return HostilePods.world.read_rdma_name(folder)

    def open_socket(family: int, netns: Path | int | None = None) -> RdmaSocket:
        return HostilePods.world.rdma.open_socket(family, netns)

    monkeypatch.setattr(hardware, "read_interface_name", read_name)
    monkeypatch.setattr(hardware, "read_rdma_device_name", read_rdma_name)
    monkeypatch.setattr(rdma, "Socket", open_socket)
    monkeypatch.setattr(netlink_rdma, "list_devices", RdmaSocket.list_devices)
    HostilePods.world = World()
    try:
        yield HostilePods.world
        print(dict(HostilePods.world.calls))  # noqa: T201 - shows with `pytest -s` how much a run has tried
    finally:
        HostilePods.world.close()


@pytest.mark.needs("root")
def test_the_host_is_the_same_whatever_pods_do_to_their_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    logging.disable(logging.WARNING)
    try:
        with model_hardware(monkeypatch):
            run_state_machine_as_test(
                HostilePods,
                settings=settings(
                    max_examples=count_examples(50),
                    stateful_step_count=20,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    finally:
        logging.disable(logging.NOTSET)
