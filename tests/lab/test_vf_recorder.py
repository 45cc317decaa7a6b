"""The recorder of emulated servers and the switch: a VF with an address that nobody set is dropped."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path

import pytest
from trackbed_lab.vm import vf_recorder
from trackbed_lab.vm.forwarding import Forwarding, SendFrame
from trackbed_lab.vm.leaves import CablePort, Leaves
from trackbed_lab.vm.machine import LabShape
from trackbed_lab.vm.router import Router
from trackbed_lab.vm.switch import read_refused

from trackbed.kernel.netlink import codec, links, vfs
from trackbed.kernel.netlink.codec import Message

MAC, OTHER = "0e:7d:00:00:40:00", "06:00:00:00:00:01"


def pack(message: Message) -> bytes:
    """A message as it lies on the socket."""
    return struct.pack("=IHHII", 16 + len(message.body), message.type, 5, 1, 0) + message.body


@pytest.mark.parametrize(
    "change", [vfs.VfChange(mac=MAC), vfs.VfChange(trust=True, mac=MAC, spoof_check=True)], ids=["alone", "with others"]
)
def test_an_address_that_is_set_is_heard_wherever_it_stands_in_a_batch(change: vfs.VfChange) -> None:
    batch = pack(links.build_set_link(3, mtu=9000)) + pack(vfs.build_set_vf(7, 2, change))
    heard = [payload for _, payload in vf_recorder.iter_link_messages(batch)]
    assert [list(vf_recorder.iter_set_macs(payload)) for payload in heard] == [[], [(7, 2, MAC)]]
    assert vf_recorder.is_request(heard[1])


def test_what_the_kernel_answers_about_vfs_is_no_request() -> None:
    message = vfs.build_set_vf(7, 2, vfs.VfChange(mac=MAC))
    answer = message._replace(body=message.body + codec.pack_attribute(links.IFLA_ADDRESS, bytes(6)))
    assert not vf_recorder.is_request(answer.body)


def describe_link(device: str | None, mac: str) -> bytes:
    """What the kernel says of an interface (rtnl_fill_ifinfo)."""
    body = bytes(16) + codec.pack_attribute(links.IFLA_ADDRESS, bytes.fromhex(mac.replace(":", "")))
    return body + (codec.pack_attribute(56, device.encode() + b"\0") if device else b"")


def test_an_address_is_known_from_the_kernels_message_about_the_function_alone() -> None:
    assert vf_recorder.find_address(describe_link("0000:11:10.0", OTHER)) == ("0000:11:10.0", OTHER)
    assert vf_recorder.find_address(describe_link(None, OTHER)) is None
    assert vf_recorder.find_address(describe_link("0000:11:10.0", f"{OTHER}:{OTHER}")) is None


def test_the_filter_passes_requests_and_drops_what_the_kernel_answers() -> None:
    request = pack(vfs.build_set_vf(7, 2, vfs.VfChange(mac=MAC)))
    answer = struct.pack("=IHHII", 16, links.RTM_NEWLINK, 2, 1, 0)
    sender, monitor = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, monitor:
        monitor.settimeout(10)
        vf_recorder.filter_requests(monitor)
        for message in (answer, request, answer, request):
            sender.send(message)
        assert [monitor.recv(1 << 16) for _ in range(2)] == [request, request]


@pytest.mark.parametrize("broken", [b"", b"\1", struct.pack("=IHHII", 3, 16, 0, 0, 0), bytes(64)])
def test_broken_messages_are_passed_over(broken: bytes) -> None:
    assert list(vf_recorder.iter_link_messages(broken)) == []
    assert list(vf_recorder.iter_set_macs(broken)) == []


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A port of rail 5 with one VF, as sysfs shows them."""
    function = tmp_path / "devices/0000:11:10.0"
    (function / "net/eth9").mkdir(parents=True)
    (function / "net/eth9/address").write_text(f"{OTHER}\n")
    device = tmp_path / "net/rail5/device"
    device.mkdir(parents=True)
    (device / "sriov_numvfs").write_text("1\n")
    (device.parent / "address").write_text("02:54:42:00:05:00\n")
    (device / "virtfn0").symlink_to(function)
    return tmp_path / "net"


def test_a_vf_is_refused_until_its_own_address_was_set(net: Path) -> None:
    recorder = vf_recorder.Recorder(net)
    assert recorder.list_refused() == {"5": [OTHER]}
    recorder.record("rail5", 0, MAC)
    assert recorder.list_refused() == {"5": [OTHER]}
    address = net / "rail5/device/virtfn0/net/eth9/address"
    address.write_text(f"{MAC}\n")
    assert recorder.list_refused() == {}


def test_a_vf_that_leaves_for_a_pod_at_once_is_known_from_the_kernels_message(net: Path) -> None:
    function = (net / "rail5/device/virtfn0").resolve()
    for place in (function / "net/eth9/address", function / "net/eth9"):
        place.unlink() if place.is_file() else place.rmdir()
    recorder = vf_recorder.Recorder(net, function.parent)
    notification = pack(Message(links.RTM_NEWLINK, 0, describe_link(function.name, OTHER)))
    recorder.hear(notification, by_kernel=False)
    assert recorder.list_refused() == {}
    recorder.hear(notification, by_kernel=True)
    assert recorder.list_refused() == {"5": [OTHER]}


def test_a_vf_in_a_pod_keeps_its_last_address_and_one_that_is_made_anew_loses_it(net: Path) -> None:
    recorder, function = vf_recorder.Recorder(net), (net / "rail5/device/virtfn0").resolve()
    recorder.record("rail5", 0, OTHER)
    assert recorder.list_refused() == {}
    for place in (function / "net/eth9/address", function / "net/eth9"):
        place.unlink() if place.is_file() else place.rmdir()
    assert recorder.list_refused() == {}
    other = function.with_name("other")
    function.rename(other)
    (function / "net/eth9").mkdir(parents=True)
    (function / "net/eth9/address").write_text(f"{OTHER}\n")
    assert recorder.list_refused() == {"5": [OTHER]}


def test_the_switch_drops_frames_of_reported_vfs_on_their_rail_and_server_alone(tmp_path: Path) -> None:
    shape = LabShape(servers=2, rails=2)
    folder = tmp_path / "node-1/own"
    folder.mkdir(parents=True)
    (folder / "spoof.json").write_text(json.dumps({"1": [OTHER]}))
    frame = b"\xff" * 6 + bytes.fromhex(OTHER.replace(":", "")) + bytes(50)
    sent: list[tuple[int, int]] = []

    def build_sender(port: CablePort) -> SendFrame:
        return lambda _: sent.append((port.rail, port.server))

    ports = {port: build_sender(port) for port in (CablePort(server, rail) for server in (0, 1) for rail in (0, 1))}
    forwarding = Forwarding(ports, Router([]), Leaves(shape), read_refused(tmp_path, shape))
    for rail, server in ((0, 0), (0, 1), (1, 0), (1, 1)):
        forwarding.handle_frame(CablePort(server, rail), frame, 0.0)
    assert sent == [(0, 1), (0, 0), (1, 1)]
    (folder / "spoof.json").write_text("{")
    assert read_refused(tmp_path, shape) == set()
