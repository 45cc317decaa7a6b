from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.host.places import enable, install_netplan
from tests.host.trees import grow
from trackbed.host.machine import Machine
from trackbed.host.network_manager import MANAGERS, ManagerError, find_format
from trackbed.kernel.netlink.links import Link

NETWORKD, NM, IFUPDOWN = "systemd-networkd.service", "NetworkManager.service", "networking.service"
HELD_BY_NETWORKD = "ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-enp1s0.network\n"
HELD_BY_NM = "[device]\nmanaged=true\nconnection-uuid=0b1c\n"


_OTHER: Any = {
    "carrier": True,
    "carrier_up_count": 1,
    "carrier_down_count": 0,
    "permanent_mac": None,
    "master": 0,
    "parent": 0,
    "group": 0,
    "altnames": (),
    "parent_device": None,
}


def link(index: int, name: str) -> Link:
    mac = f"02:00:00:00:00:0{index}"
    return Link(index, name, "", 1500, 1, "up", mac=mac, **_OTHER)


MGMT, RAIL = link(2, "mgmt0"), link(3, "enp1s0")


def find(root: Path) -> str:
    return find_format(Machine(root), [RAIL], [link(1, "lo"), MGMT, RAIL])


@pytest.mark.parametrize(
    ("unit", "chosen"), [(NETWORKD, "networkd"), (NM, "networkmanager"), (IFUPDOWN, "ifupdown")], ids=str
)
def test_the_one_manager_that_is_enabled_decides_whatever_folders_there_are(
    tmp_path: Path, unit: str, chosen: str
) -> None:
    for folder in ("netplan", "NetworkManager", "network", "systemd/network"):
        (tmp_path / "etc" / folder).mkdir(parents=True)
    enable(tmp_path, unit)
    assert find(tmp_path) == chosen


def test_netplan_decides_for_the_manager_that_obeys_it_if_it_has_a_file_to_read(tmp_path: Path) -> None:
    enable(tmp_path, NETWORKD, NM)
    site = install_netplan(tmp_path)
    assert find(tmp_path) == "netplan"
    site.unlink()
    grow(tmp_path, {"/run/systemd/netif/links/3": HELD_BY_NETWORKD})
    assert find(tmp_path) == "networkd"


def test_a_unit_that_is_masked_or_only_installed_is_not_enabled(tmp_path: Path) -> None:
    enable(tmp_path, NETWORKD, NM)
    (tmp_path / "etc/systemd/system" / NETWORKD).symlink_to("/dev/null")
    grow(tmp_path, {f"/lib/systemd/system/{IFUPDOWN}": ""})
    assert find(tmp_path) == "networkmanager"


def test_units_that_the_distribution_or_a_generator_starts_are_enabled(tmp_path: Path) -> None:
    grow(tmp_path, {"/etc/systemd/x": "", f"/usr/lib/systemd/system/multi-user.target.wants/{NETWORKD}": ""})
    assert find(tmp_path) == "networkd"
    grow(tmp_path, {"/run/systemd/generator.late/multi-user.target.wants/network.service": ""})
    with pytest.raises(ManagerError, match="network-scripts"):
        find(tmp_path)


def test_of_several_the_one_that_holds_the_ports_decides(tmp_path: Path) -> None:
    enable(tmp_path, NETWORKD, NM, IFUPDOWN)
    grow(tmp_path, {"/run/network/ifstate": "lo=lo\nmgmt0=mgmt0\n", "/run/NetworkManager/devices/3": HELD_BY_NM})
    assert find(tmp_path) == "networkmanager"


def test_where_none_holds_a_port_the_one_that_holds_an_interface_decides(tmp_path: Path) -> None:
    enable(tmp_path, NETWORKD, IFUPDOWN)
    grow(tmp_path, {"/run/network/ifstate": "lo=lo\nmgmt0=mgmt0\n"})
    grow(tmp_path, {"/run/systemd/netif/links/3": "ADMIN_STATE=unmanaged\n"})
    assert find(tmp_path) == "ifupdown"


@pytest.mark.support("network manager", "wicked", "refused", "wicked configures the network of this machine")
@pytest.mark.parametrize("manager", [manager for manager in MANAGERS if not manager.format], ids=lambda m: m.name)
def test_a_manager_without_files_of_trackbed_is_refused_by_name(tmp_path: Path, manager: object) -> None:
    assert isinstance(manager, tuple)
    name, unit = manager[:2]
    enable(tmp_path, unit)
    with pytest.raises(ManagerError, match=rf"^{name} configures the network of this machine \({unit} is enabled\)"):
        find(tmp_path)


def test_managers_that_share_the_ports_or_hold_nothing_are_left_to_the_user(tmp_path: Path) -> None:
    enable(tmp_path, NETWORKD, IFUPDOWN)
    with pytest.raises(ManagerError, match="none of them holds an interface; disable all but one, or choose a format"):
        find(tmp_path)
    grow(tmp_path, {"/run/network/ifstate": "mgmt0=mgmt0\n", "/run/systemd/netif/links/2": HELD_BY_NETWORKD})
    with pytest.raises(ManagerError, match="ifupdown holds mgmt0, systemd-networkd holds mgmt0"):
        find(tmp_path)


def test_a_machine_without_a_manager_or_without_systemd_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManagerError, match="does not start with systemd"):
        find(tmp_path)
    (tmp_path / "etc/systemd").mkdir(parents=True)
    with pytest.raises(ManagerError, match="no network manager is enabled here"):
        find(tmp_path)
    grow(tmp_path, {"/proc/1/comm": "init\n"})
    with pytest.raises(ManagerError, match="does not start with systemd"):
        find(tmp_path)
