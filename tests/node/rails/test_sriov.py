"""Mode sriov on a real kernel: veth ends stand for VFs, a folder for what sysfs says of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.node.rails.node import FABRIC, Node, inside, made, netns_fd, planned
from tests.node.rails.sysfs import Sysfs
from trackbed.kernel.netlink import codec, links
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import BatchError, Failure, Socket
from trackbed.kernel.netlink.vfs import IFLA_VFINFO_LIST
from trackbed.node.rails import rdma, recovery
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment, PortIdentity
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.handlers import as_cni_errors
from trackbed.node.rails.ledger import Ledger
from trackbed.node.rails.move import Move
from trackbed.node.rails.pod import compare
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
                host.send([links.build_create_veth(near, links.VethEnd(f"far-{name}", netns_fd=segment))])
                sysfs.vf(f"rail{rail}", CHOSEN[rail], interface=name)
        yield node


@pytest.fixture
def move(node: Node) -> Iterator[Move]:
    """The mode, on a thread that is in the node's namespace."""
    with ExitStack() as stack:
        stack.enter_context(enter_netns(node.netns))
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, home)
        ledger = Ledger(node.folder / "ports", "boot")
        yield Move(node.plan, home, ledger, sysfs=node.folder / "sys")


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
            assert (link.mtu, link.mac, link.is_up) == (4000, f"02:00:00:00:00:0{rail}", True)
            assert block.pods_first + vf in {link.address for link in state.addresses}
        assert not set(NAMES.values()) & set(inside(node.netns).links)
        assert compare(moved, node.plan.common, sandbox) == (2, ())
        move.detach(moved, sandbox, alone=True)
    after = inside(node.netns).links
    assert {name: (link.index, link.mac, link.mtu, link.is_up) for name, link in before.items()} == {
        name: (after[name].index, after[name].mac, after[name].mtu, after[name].is_up) for name in before
    }


def test_a_vf_that_the_kernel_brought_home_gets_its_name_back_from_udev(node: Node, move: Move) -> None:
    moved = attachment(move, node.pod().path)
    renamed(node, "ens1v1", "dev65536")
    with Socket(netns=node.netns) as host:
        host.send([links.build_add_altname(links.get_link(host, "dev65536").index, "ens1v1")])
    move.detach(moved, None, alone=True)
    assert "dev65536" not in inside(node.netns).links
    assert inside(node.netns).links["ens1v1"].altnames == ()


def test_a_vf_that_comes_home_late_gets_its_name_back_then(
    node: Node, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    remade: list[list[int]] = []
    monkeypatch.setattr(recovery, "RETURN_SECONDS", 0)
    monkeypatch.setattr(rdma, "recreate_soft_devices", lambda ports: remade.append([port.rail for port in ports]))
    moved, hidden = attachment(move, node.pod().path), node.namespace("hidden")
    send_away(node.netns, hidden, "ens1v1", "ens1v1")
    move.detach(moved, None, alone=True)
    move.restore_returned_devices()
    send_away(hidden, node.netns, "ens1v1", "dev65536")
    move.restore_returned_devices()
    assert "ens1v1" in inside(node.netns).links
    assert remade == [[3], [], [0]]


def send_away(origin: Path, target: Path, name: str, new_name: str) -> None:
    with Socket(netns=origin) as sock, netns_fd(target) as namespace:
        index = links.get_link(sock, name).index
        sock.send([links.build_set_link(index, netns_fd=namespace, name=new_name)])


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
        host.send([links.build_set_link(index, up=False)])
        host.send([links.build_set_link(index, name=other)])
    for folder in (node.folder / "sys").rglob(f"net/{name}"):
        if folder.parent.parent.name.startswith("virtfn"):
            folder.rename(folder.with_name(other))


def test_a_vf_without_record_is_looked_for_by_its_pci_address_under_a_name_that_is_not_its_ports(
    node: Node, move: Move
) -> None:
    sysfs = Sysfs(node.folder / "sys")
    device = sysfs.vf("rail2", 1)
    (node.folder / "0000:11:10.2").mkdir()
    device.joinpath("net").rmdir()
    device.rmdir()
    device.symlink_to(node.folder / "0000:11:10.2")
    vf = dict(move.iter_slots())[2, 1]
    assert (vf.name, vf.identity) == ("rail2v1", PortIdentity(parent_device="0000:11:10.2"))


def test_a_vf_that_is_not_there_is_told_with_its_rail(move: Move) -> None:
    with pytest.raises(CniError, match="rail 5: the interface of VF 0 of rail5 is not on this node"):
        move.build_ports({5: 0}, {})


@pytest.mark.parametrize("answer", [errno.EOPNOTSUPP, errno.EPERM], ids=["no such setting", "DPU mode"])
def test_a_port_that_refuses_to_guard_its_vf_still_gives_it_to_the_pod(
    node: Node, move: Move, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: int
) -> None:
    send = Socket.send

    def refuse(sock: Socket, messages: Sequence[Message]) -> None:
        guards = [index for index, message in enumerate(messages) if is_guard(message)]
        send(sock, [message for message in messages if not is_guard(message)])
        if guards:
            raise BatchError(tuple(Failure(index, answer, "") for index in guards))

    monkeypatch.setattr(Socket, "send", refuse)
    pod = node.pod()
    with open_sandbox(str(pod.path)) as sandbox:
        moved = attachment(move, pod.path)
        move.attach(moved, sandbox)
        assert inside(pod.path).rails == ["rail0", "rail3"]
        move.detach(moved, sandbox, alone=True)
    assert ("DPU mode: the Arm cores of the BlueField" in caplog.text) is (answer == errno.EPERM)


@pytest.mark.parametrize("chosen", [CHOSEN, {0: PORT_ITSELF}], ids=["VF", "port"])
def test_a_device_whose_name_the_pod_has_is_refused_as_existing(node: Node, move: Move, chosen: dict[int, int]) -> None:
    pod = node.pod()
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_create_veth(links.VethEnd("rail0"), links.VethEnd("rail0x"))])
    ports = move.build_ports(chosen, {})
    moved = Attachment("c0", "eth0", "rails", "sriov", str(pod.path), pod.path.stat().st_ino, "boot", ports)
    with open_sandbox(str(pod.path)) as sandbox, pytest.raises(CniError) as refusal, as_cni_errors():
        move.attach(moved, sandbox)
    assert refusal.value.code == Code.EXISTS


def is_guard(message: Message) -> bool:
    return message.type == links.RTM_NEWLINK and IFLA_VFINFO_LIST in codec.parse_attributes(message.body, 16)


def test_a_port_comes_home_with_its_traffic_class_for_rdma_cm(
    node: Node, move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("move_devices_into_pod", "move_devices_to_host"):  # this machine has no RDMA core
        monkeypatch.setattr(rdma, name, lambda *_: None)
    sysfs = Sysfs(node.folder / "sys")
    sysfs.port("rail2", rdma="mlx5_2")
    file = node.folder / "sys/kernel/config/rdma_cm/mlx5_2/ports/1/default_roce_tos"
    file.parent.mkdir(parents=True)
    file.write_text("96\n")
    pod = node.pod()
    with open_sandbox(str(pod.path)) as sandbox:
        ports = move.build_ports({2: PORT_ITSELF}, {})
        moved = Attachment("c0", "eth0", "rails", "move", str(pod.path), pod.path.stat().st_ino, "boot", ports)
        move.attach(moved, sandbox)
        assert file.read_text() == f"{node.plan.common.qos.traffic_class}\n"
        file.write_text("0\n")  # cma_add_one, when the device comes back
        move.detach(moved, sandbox, alone=True)
    assert file.read_text() == "96\n"
