from pathlib import Path

import pytest

from tests.hosts.places import Host
from trackbed.hosts.machine import Absent, Machine


def test_a_path_lies_below_the_root(tmp_path: Path) -> None:
    assert Machine(tmp_path).path("/etc/hosts") == tmp_path / "etc/hosts"


@pytest.mark.parametrize("wrong", ["etc/hosts", "/etc/../../secret", ".."])
def test_a_path_that_leads_out_of_the_root_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"must be an absolute path without '\.\.'"):
        Machine(tmp_path).path(wrong)


def test_a_symbolic_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/etc").symlink_to("/etc")
    with pytest.raises(ValueError, match=r"leads out of .*/root by a symbolic link"):
        Machine(tmp_path / "root").path("/etc/hosts")


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
