"""A pod with NET_ADMIN that leaves settings, programs and interfaces on the port that it was lent."""

from __future__ import annotations

import ctypes
import os
import struct

import pytest

from tests.node.rails.hostile import read_links, run_ip
from tests.node.rails.node import Node, Pod, inside
from trackbed.kernel.netlink import codec, links
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.sockets import Socket

pytestmark = [pytest.mark.needs("root", "ip", "nsenter"), pytest.mark.usefixtures("agent")]

INDEX = 65536
"""Interface index of rail 0 in pods."""
_BPF_SYSCALL, _BPF_PROG_LOAD, _BPF_PROG_TYPE_XDP = 321, 5, 6
_DROP_ALL = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)
"""r0 = XDP_DROP; exit (struct bpf_insn of include/uapi/linux/bpf.h)."""


@pytest.fixture
def pod(node: Node) -> Pod:
    pod = node.pod()
    node.add(pod, mode="move", rails=[0])
    return pod


@pytest.mark.parametrize(
    "setting",
    [("gso_max_size", 4096), ("gso_max_segs", 1), ("gro_max_size", 4096), ("mode", "dormant")],
    ids=lambda setting: setting[0],
)
def test_limits_that_a_pod_sets_stay_with_the_pod(node: Node, setting: tuple[str, object]) -> None:
    before, pod = _read_port(node), node.pod()
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "set", "rail0", *setting)
    with Socket(netns=pod.path) as sock:
        assert _list_limits(links.get_link(sock, "rail0")) != _list_limits(before)
    node.delete(pod)
    assert _list_limits(_read_port(node)) == _list_limits(before)


@pytest.mark.parametrize("mode", [links.XDP_FLAGS_SKB_MODE, links.XDP_FLAGS_DRV_MODE], ids=["generic", "driver"])
def test_an_xdp_program_of_a_pod_does_not_come_home_with_its_port(node: Node, pod: Pod, mode: int) -> None:
    run_ip(node.segment, "link", "set", "far0", "mtu", 1500)  # veth takes programs of small packets only
    with Socket(netns=pod.path) as sock:
        sock.send([_build_attach_xdp(INDEX, _load_program(), mode)])
        assert links.get_link(sock, "rail0").has_xdp
    node.delete(pod)
    assert not _read_port(node).has_xdp


@pytest.mark.parametrize("kind", ["macvlan", "macvtap"])
def test_an_interface_on_a_lent_port_does_not_outlive_the_loan(node: Node, kind: str) -> None:
    before, pod = read_links(node.netns), node.pod()
    node.add(pod, mode="move", rails=[0])
    run_ip(pod.path, "link", "add", "link", "rail0", "name", "upper", "type", kind)
    run_ip(pod.path, "link", "set", "upper", "up")
    node.delete(pod)
    assert read_links(node.netns) == before
    assert "upper" not in inside(pod.path).links


def test_hundreds_of_interfaces_on_a_lent_port_do_not_outlive_it(node: Node, pod: Pod) -> None:
    with Socket(netns=pod.path) as sock:
        sock.send([links.build_create_macvlan(f"upper{number}", INDEX) for number in range(300)])
    node.delete(pod)
    assert "rail0" in inside(node.netns).links
    assert set(inside(pod.path).links) == {"lo"}


def _read_port(node: Node) -> Link:
    return inside(node.netns).links["rail0"]


def _list_limits(link: Link) -> tuple[int, ...]:
    return (link.mode, *link.packet_limits)


def _load_program() -> int:
    """Return the descriptor of an XDP program that drops each packet."""
    text, license_ = ctypes.create_string_buffer(_DROP_ALL), ctypes.create_string_buffer(b"GPL")
    head = struct.pack("=IIQQ", _BPF_PROG_TYPE_XDP, 2, ctypes.addressof(text), ctypes.addressof(license_))
    attributes = ctypes.create_string_buffer(head.ljust(128, b"\0"), 128)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(_BPF_SYSCALL, _BPF_PROG_LOAD, attributes, 128))
    if descriptor < 0:
        pytest.skip(f"this kernel loads no XDP program: {os.strerror(ctypes.get_errno())}")
    return descriptor


def _build_attach_xdp(index: int, program: int, mode_flag: int) -> Message:
    fields = (
        codec.pack_attribute(links.IFLA_XDP_FD, struct.pack("=i", program)),
        codec.pack_u32(links.IFLA_XDP_FLAGS, mode_flag),
    )
    body = struct.pack("=BxHiII", 0, 0, index, 0, 0) + codec.pack_nested(links.IFLA_XDP, *fields)
    return Message(links.RTM_NEWLINK, 0, body)
