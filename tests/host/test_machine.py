from pathlib import Path

import pytest

from tests.host.places import Host
from trackbed.host.machine import Absent, Machine, Unreadable


def test_a_path_lies_below_the_root(tmp_path: Path) -> None:
    assert Machine(tmp_path).locate("/etc/hosts") == tmp_path / "etc/hosts"


@pytest.mark.parametrize("wrong", ["etc/hosts", "/etc/../../secret", ".."])
def test_a_path_that_leads_out_of_the_root_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"must be an absolute path without '\.\.'"):
        Machine(tmp_path).locate(wrong)


def test_a_symbolic_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/etc").symlink_to("/etc")
    with pytest.raises(ValueError, match=r"leads out of .*/root by a symbolic link"):
        Machine(tmp_path / "root").locate("/etc/hosts")


LINKS = {
    "absolute": "{outside}/secret",
    "relative": "../../outside/secret",
    "through another": "other",
    "to the folder beside that begins alike": "{root}-b/secret",
}


@pytest.mark.parametrize("target", LINKS.values(), ids=LINKS)
def test_what_a_file_leads_to_outside_the_root_is_neither_read_nor_written(tmp_path: Path, target: str) -> None:
    outside, beside, root = tmp_path / "outside", tmp_path / "root-b", tmp_path / "root"
    for folder in (outside, beside, root / "etc"):
        folder.mkdir(parents=True)
    for folder in (outside, beside):
        (folder / "secret").write_text("hunter2")
    (root / "etc/other").symlink_to(outside / "secret")
    (root / "etc/hostname").symlink_to(target.format(outside=outside, root=root))
    machine = Machine(root)
    text = machine.read("/etc/hostname")
    assert isinstance(text, Unreadable)
    assert "leads out of" in text.reason
    with pytest.raises(ValueError, match="leads out of"):
        machine.write_attribute("/etc/hostname", "changed")
    assert (outside / "secret").read_text() == (beside / "secret").read_text() == "hunter2"


def test_links_within_the_root_are_followed_and_may_be_read_themselves(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/pci/net/rail0").mkdir(parents=True)
    (tmp_path / "sys/devices/pci/net/rail0/mtu").write_text("9000\n")
    (tmp_path / "sys/class").mkdir()
    (tmp_path / "sys/class/net").symlink_to("../devices/pci/net")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/mask").symlink_to("/dev/null")
    machine = Machine(tmp_path)
    assert machine.read("/sys/class/net/rail0/mtu") == "9000"
    assert machine.locate("/etc/mask").readlink() == Path("/dev/null")


def test_a_link_that_leads_round_in_a_circle_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert isinstance(Machine(tmp_path).read("/loop"), Unreadable)


def test_kernel_parameters_are_those_of_the_namespace(place: Host) -> None:
    outside = Machine(place.machine.root)
    place.machine.write_sysctl("net/ipv4/conf/eth0/rp_filter", "2")
    assert place.machine.read_sysctl("net/ipv4/conf/eth0/rp_filter") == "2"
    assert outside.read_sysctl("net/ipv4/conf/leaf0/rp_filter") == Absent()
    assert place.machine.read_sysctl("net/ipv4/conf/leaf0/rp_filter") == Absent()


@pytest.mark.parametrize("wrong", ["/net/ipv4/ip_forward", "net/../kernel/hostname"])
def test_a_key_is_no_path(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match="is no kernel parameter"):
        Machine(tmp_path).read_sysctl(wrong)
