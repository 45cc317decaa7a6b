from pathlib import Path

import pytest

from trackbed.host.change import Change
from trackbed.host.kinds.name import Want, compare, find_port
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.state import HostState
from trackbed.kernel.netlink.links import Link

PCI, MAC, OTHER = "0000:18:00.0", "b8:3f:d2:00:00:01", "b8:3f:d2:00:00:02"
NIC = Link(2, "eth0", "", 1500, 0, "down", False, 0, 0, MAC, MAC, 0, 0, 0, ("enp24s0np0",), PCI)  # noqa: FBT003 - carrier


def state(*links: Link) -> HostState:
    return HostState(Machine(Path("/")), links, (), (), (), ())


FOUND = {
    "by PCI address": (NIC, Want("rail0", PCI, None, None)),
    "by PCI address although its MAC was changed": (NIC._replace(mac=OTHER), Want("rail0", PCI, MAC, None)),
    "by permanent MAC": (NIC._replace(mac=OTHER), Want("rail0", None, MAC, None)),
    "by MAC where there is no permanent one": (NIC._replace(permanent_mac=None), Want("rail0", None, MAC, None)),
    "by the kernel's name": (NIC, Want("rail0", None, None, "eth0")),
    "by another of its names": (NIC, Want("rail0", None, None, "enp24s0np0")),
    "by the right name": (NIC._replace(name="rail0"), Want("rail0", None, None, None)),
    "by the right name where no hardware can be seen": (
        NIC._replace(name="rail0", kind="veth", permanent_mac=None, parent_device=None),
        Want("rail0", PCI, OTHER, None),
    ),
}


@pytest.mark.parametrize(("link", "name"), FOUND.values(), ids=FOUND)
def test_a_port_is_found(link: Link, name: Want) -> None:
    stranger = NIC._replace(index=9, name="eth9", mac=OTHER, permanent_mac=None, parent_device=None, altnames=())
    other = stranger._replace(mac="02:00:00:00:00:09")
    assert find_port(state(other, link), name) == link


NOT_FOUND = {
    "another PCI address": (NIC, Want("rail0", "0000:19:00.0", None, None)),
    "the right name on another card": (NIC._replace(name="rail0"), Want("rail0", "0000:19:00.0", None, None)),
    "the right name on a swapped card": (NIC._replace(name="rail0"), Want("rail0", None, OTHER, None)),
    "a VLAN with the port's MAC": (NIC._replace(kind="vlan", permanent_mac=None), Want("rail0", None, MAC, None)),
    "a bond that took the port's MAC": (NIC._replace(mac=OTHER), Want("rail0", None, OTHER, None)),
}


@pytest.mark.parametrize(("link", "name"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_no_other_interface_is_taken_for_the_port(link: Link, name: Want) -> None:
    assert find_port(state(link), name) is None


def test_of_a_card_with_representors_the_named_one_is_the_port_else_the_oldest() -> None:
    uplink, representor = NIC, NIC._replace(index=7, name="eth0_0", permanent_mac=None, mac=OTHER)
    name = Want("rail0", PCI, None, None)
    assert find_port(state(representor, uplink), name) == uplink
    named = representor._replace(name="rail0")
    assert find_port(state(named, uplink), name) == named


@pytest.mark.parametrize(
    ("release", "links", "says"),
    [
        pytest.param("5.10.0-32-amd64", (), "this kernel is 5.10.0-32-amd64", id="too old"),
        pytest.param("4.18.0-553.el8", (NIC,), "no interface has PCI address", id="a backport shows addresses"),
        pytest.param("6.1.0-30-amd64", (), "no interface has PCI address", id="new enough"),
    ],
)
def test_a_kernel_that_shows_no_pci_addresses_is_named(release: str, links: tuple[Link, ...], says: str) -> None:
    stranger = NIC._replace(parent_device=None)
    machine = Machine(Path("/"), cache={"kernel/osrelease": release.encode()})
    want = Want("rail0", "0000:99:00.0")
    setting = Setting("names", want, 0, "")
    change = compare(setting, want, View(HostState(machine, (stranger, *links), (), (), (), ()), (setting,), {}))
    assert isinstance(change, Change)
    assert change.advice.startswith(says)


@pytest.mark.parametrize("port_name", ["pf0vf1", "pf1", "c1pf0vf2", "pf0sf88"])
def test_what_the_kernel_calls_a_representor_is_never_the_port(port_name: str) -> None:
    representor = NIC._replace(index=1, name="rail0", port_name=port_name)
    assert find_port(state(representor, NIC._replace(port_name="p0")), Want("rail0", PCI, None, None)) == NIC._replace(
        port_name="p0"
    )
    assert find_port(state(representor), Want("rail0", PCI, None, None)) is None
