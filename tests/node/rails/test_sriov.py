"""Mode sriov on a real kernel: veth ends stand for VFs, a folder for what sysfs says of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel.senders import add_altname
from tests.node.rails.node import FABRIC, Node, inside, made, netns_fd, planned
from tests.node.rails.sysfs import Sysfs
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import hostport, leftovers, rdma
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment
from trackbed.node.rails.errors import CniError
from trackbed.node.rails.move import Move
from trackbed.node.rails.sandbox import open_sandbox

pytestmark = pytest.mark.needs("root")

VFS = FABRIC.replace("  rails: 8\n", "  rails: 8\n  vfs: {count: 2, mtu: 4000}\n")
CHOSEN = {0: 1, 3: 0}
NAMES = {0: "ens1v1", 3: "ens4v0"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with a VF on rail 0 and one on rail 3."""
    with made(tmp_path, planned(VFS)) as node:
        sysfs = Sysfs(tmp_path / "sys")
        with Socket(netns=node.netns) as host, netns_fd(node.segment) as segment:
            for rail, name in NAMES.items():
                near = links.VethEnd(name, mtu=1500, mac=f"02:00:00:00:00:0{rail}")
                host.send([links.create_veth(near, links.VethEnd(f"far-{name}", netns_fd=segment))])
                sysfs.vf(f"rail{rail}", CHOSEN[rail], interface=name)
        yield node


@pytest.fixture
def move(node: Node) -> Iterator[Move]:
    """The mode, on a thread that is in the node's namespace."""
    with ExitStack() as stack:
        stack.enter_context(enter_netns(node.netns))
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, home)
        yield Move(node.plan, home, node.folder / "sys")


def attachment(move: Move, path: Path) -> Attachment:
    ports = move.build_ports(CHOSEN, {0: "rail0-1", 3: "rail3-0"})
    return Attachment("c0", "eth0", "rails", "sriov", str(path), path.stat().st_ino, "boot", ports)


def test_a_vf_goes_into_the_pod_as_its_rail_and_comes_back_as_it_was(node: Node, move: Move) -> None:
    before = {name: inside(node.netns).links[name] for name in NAMES.values()}
    pod = node.pod()
    with open_sandbox(str(pod.path)) as sandbox:
        moved = attachment(move, pod.path)
        move.attach(moved, sandbox)
        state = inside(pod.path)
        assert state.rails == ["rail0", "rail3"]
        for rail, vf in CHOSEN.items():
            link, block = state.links[f"rail{rail}"], node.plan.ports[rail].v4
            assert block is not None
            assert (link.mtu, link.mac, link.up) == (4000, f"02:00:00:00:00:0{rail}", True)
            assert block.pods_first + vf in {link.address for link in state.addresses}
        assert not set(NAMES.values()) & set(inside(node.netns).links)
        move.detach(moved, sandbox, alone=True)
    after = inside(node.netns).links
    assert {name: (link.index, link.mac, link.mtu, link.up) for name, link in before.items()} == {
        name: (after[name].index, after[name].mac, after[name].mtu, after[name].up) for name in before
    }


def test_a_vf_that_the_kernel_brought_home_gets_its_name_back_from_udev(node: Node, move: Move) -> None:
    moved = attachment(move, node.pod().path)
    renamed(node, "ens1v1", "dev65536")
    with Socket(netns=node.netns) as host:
        host.send([add_altname(links.get_link(host, "dev65536").index, "ens1v1")])
    move.detach(moved, None, alone=True)
    assert "dev65536" not in inside(node.netns).links
    assert inside(node.netns).links["ens1v1"].altnames == ()


def test_a_vf_that_comes_home_late_gets_its_name_back_then(
    node: Node, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    remade: list[list[int]] = []
    monkeypatch.setattr(hostport, "RETURN_SECONDS", 0)
    monkeypatch.setattr(rdma, "recreate", lambda ports: remade.append([port.rail for port in ports]))
    moved = attachment(move, node.pod().path)
    here = node.folder / "sys/class/net/rail0/device/virtfn1/net"
    away = here.rename(here.with_name("away"))
    renamed(node, "ens1v1", "dev65536")
    move.detach(moved, None, alone=True)
    move.restore_late()
    assert "dev65536" in inside(node.netns).links
    away.rename(here)
    (here / "ens1v1").rename(here / "dev65536")
    move.restore_late()
    assert "ens1v1" in inside(node.netns).links
    assert remade == [[3], [], [0]]


def test_a_port_that_the_kernel_brought_home_under_its_name_in_the_pod_is_known_by_its_mac(
    node: Node, move: Move
) -> None:
    ports = move.build_ports({0: PORT_ITSELF}, {})
    renamed(node, "rail0", "net1")
    move.detach(Attachment("c0", "eth0", "rails", "move", "/gone", 1, "boot", ports), None, alone=True)
    assert inside(node.netns).links["rail0"].mac == ports[0].mac


def renamed(node: Node, name: str, other: str) -> None:
    """As if the device had been away; sysfs follows for a VF."""
    with Socket(netns=node.netns) as host:
        index = links.get_link(host, name).index
        host.send([links.set_link(index, up=False)])
        host.send([links.set_link(index, name=other)])
    for folder in (node.folder / "sys").rglob(f"net/{name}"):
        if folder.parent.parent.name.startswith("virtfn"):
            folder.rename(folder.with_name(other))


def test_a_vf_without_record_goes_home_under_a_name_that_is_not_its_ports(tmp_path: Path) -> None:
    plan, sysfs = planned(VFS), Sysfs(tmp_path)
    device = sysfs.vf("rail2", 1)
    (tmp_path / "0000:11:10.2").mkdir()
    device.joinpath("net").rmdir()
    device.rmdir()
    device.symlink_to(tmp_path / "0000:11:10.2")
    assert leftovers.choose_host_netdev_name(plan, plan.ports[2], "0000:11:10.2", tmp_path) == "rail2v1"
    assert leftovers.choose_host_netdev_name(plan, plan.ports[2], "0000:11:00.0", tmp_path) == "rail2"


def test_a_vf_that_is_not_there_is_told_with_its_rail(move: Move) -> None:
    with pytest.raises(CniError, match="rail 5: the interface of VF 0 of rail5 is not on this node"):
        move.build_ports({5: 0}, {})
