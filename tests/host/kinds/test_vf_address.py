"""Addresses of VFs: set through the port, read by the VF's driver when it is bound again."""

import errno

import pytest

from tests.host.nics import FRESH
from tests.host.places import Host
from tests.host.sriov import ZERO, Kernel, make_kernel
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow, nic
from trackbed.host.change import Rebind
from trackbed.host.kinds import vf_address
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.vfs import LinkState, VfChange

PCI = "0000:18:00.0"
MACS = ["0e:7d:00:00:40:00", "0e:7d:00:00:40:01"]
GUIDS = ["0e7d:00ff:fe00:4000", "0e7d:00ff:fe00:4001"]


def wanted(spec: str = "") -> tuple[Setting, ...]:
    text = f"  vfs: {{count: 2, mtu: 1400}}\n  names: {{netdev: keep}}\n{spec}"
    node = node_plan(
        "{scheme: none}" if spec else P2P, f'[{{pci: "{PCI}", netdev: eth0}}, {{netdev: eth1}}]', spec=text
    )
    return tuple(setting for setting in iter_settings(node, {"vfs"}) if setting.rail == 0)


@pytest.fixture
def kernel(place: Host, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    nic(place.machine.root, "eth0", PCI)
    return make_kernel(place, monkeypatch, "eth0", PCI)


def subjects(kernel: Kernel) -> list[tuple[str, str, str]]:
    changes = compare(kernel.host.machine, wanted()).changes
    return [(change.subject, change.have, change.want) for change in changes]


def read_macs(kernel: Kernel) -> list[str]:
    return [kernel.read_mac(number) for number in (0, 1)]


def read_set(kernel: Kernel) -> list[str | None]:
    """The addresses that the port has set."""
    return [kernel.drivers.guards.get((kernel.netdev, number), FRESH).mac for number in (0, 1)]


def test_new_vfs_get_their_addresses_before_anything_else_and_use_them(kernel: Kernel) -> None:
    done = apply(kernel.host.machine, wanted(), kernel.host.records)
    assert [change.subject for change in done.changes] == [
        "VFs of eth0",
        "MAC of VF 0 of eth0",
        "MAC of VF 1 of eth0",
        "MTU of VF 0 of eth0",
        "MTU of VF 1 of eth0",
    ]
    assert read_set(kernel) == read_macs(kernel) == MACS
    guid = kernel.locate(1) / "infiniband/mlx5_1/node_guid"
    assert guid.read_text().strip() == GUIDS[1]
    assert subjects(kernel) == []
    assert undo(kernel.host.machine, kernel.host.records) == ()
    assert not list(kernel.folder.glob("virtfn*"))


def test_vfs_that_were_there_are_bound_again_once_and_undone(kernel: Kernel) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    assert subjects(kernel)[:1] == [("MAC of VF 0 of eth0", f"{ZERO}, in use none", MACS[0])]
    apply(kernel.host.machine, wanted(), kernel.host.records)
    assert read_macs(kernel) == MACS
    assert kernel.bound[2:] == ["0000:18:00.2", "0000:18:00.3"]
    assert apply(kernel.host.machine, wanted(), kernel.host.records).changes == ()
    assert len(kernel.bound) == 4
    assert undo(kernel.host.machine, kernel.host.records) == ()
    assert read_set(kernel) == [ZERO, ZERO]
    assert MACS[0] not in read_macs(kernel)


def test_an_address_that_the_driver_has_not_read_is_a_difference(kernel: Kernel) -> None:
    apply(kernel.host.machine, wanted(), kernel.host.records)
    kernel.drivers.guards["eth0", 0] = kernel.drivers.guards["eth0", 0]._replace(mac="02:00:00:00:00:11")
    kernel.unbind(0)
    kernel.bind(0)
    kernel.drivers.guards["eth0", 0] = kernel.drivers.guards["eth0", 0]._replace(mac=MACS[0])
    assert subjects(kernel)[0] == ("MAC of VF 0 of eth0", f"{MACS[0]}, in use 02:00:00:00:00:11", MACS[0])
    apply(kernel.host.machine, wanted(), kernel.host.records)
    assert read_macs(kernel) == MACS


def test_a_vf_whose_driver_a_killed_apply_took_away_gets_it_back(kernel: Kernel) -> None:
    apply(kernel.host.machine, wanted(), kernel.host.records)
    kernel.unbind(1)
    assert ("MAC of VF 1 of eth0", f"{MACS[1]}, in use none", MACS[1]) in subjects(kernel)
    apply(kernel.host.machine, wanted(), kernel.host.records)
    assert read_macs(kernel) == MACS
    assert subjects(kernel) == []


def test_vfs_of_pods_are_left_alone_and_the_others_are_addressed(kernel: Kernel) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    kernel.hold(0)
    before = list(kernel.bound)
    apply(kernel.host.machine, wanted(), kernel.host.records)
    assert read_set(kernel)[0] == ZERO
    assert kernel.read_mac(1) == MACS[1]
    assert kernel.bound == [*before, "0000:18:00.3"]
    skipped = {skip.subject: skip.reason for skip in compare(kernel.host.machine, wanted()).skipped}
    assert "the interface of this VF is in a pod" in skipped.values()
    kernel.hold(1)
    (wrong,) = undo(kernel.host.machine, kernel.host.records)
    assert wrong.startswith("address of VF 1 of eth0: it is in use")


def test_a_vf_that_udev_renames_after_the_links_were_listed_is_still_on_the_host(kernel: Kernel) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    before = kernel.locate(0) / "net" / kernel.name_interface(0)
    grow(before, {"ifindex": f"{kernel.host.index(kernel.name_interface(0))}\n"})
    before.rename(before.with_name("ens1v0"))
    comparison = compare(kernel.host.machine, wanted())
    assert "the interface of this VF is in a pod" not in [skip.reason for skip in comparison.skipped]
    assert {"MAC of VF 0 of eth0", "MTU of VF 0 of eth0"} <= {change.subject for change in comparison.changes}


def test_a_port_that_refuses_addresses_is_reported_and_all_else_is_set(kernel: Kernel) -> None:
    kernel.drivers.refuses = errno.EPERM
    done = apply(kernel.host.machine, wanted(), kernel.host.records)
    assert "MTU of VF 0 of eth0" in [change.subject for change in done.changes]
    refused = {change.subject: change.advice for change in done.remaining.changes}
    assert "DPU mode" in refused["MAC of VF 0 of eth0"]
    assert MACS[0] not in read_macs(kernel)


def test_a_host_that_may_not_see_its_vfs_says_dpu_mode(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    (kernel.folder / "driver").symlink_to(kernel.host.machine.root / "sys/bus/pci/drivers/mlx5_core")
    monkeypatch.setattr(vf_address, "read_ports_vfs", lambda _: {})
    skipped = compare(kernel.host.machine, wanted()).skipped
    assert "the BlueField is in DPU mode, so its Arm cores set the VFs of this port, not this host" in [
        skip.reason for skip in skipped
    ]


@pytest.mark.parametrize("state", ["disable", "enable"])
def test_on_infiniband_guids_and_link_state_are_set(kernel: Kernel, state: LinkState) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    zero = "0000:0000:0000:0000"
    fresh = VfChange(mac=ZERO, link_state=state, node_guid=zero, port_guid=zero)
    kernel.drivers.guards = {("eth0", number): fresh for number in (0, 1)}
    settings = wanted("  linkType: infiniband\n")
    changes = compare(kernel.host.machine, settings).changes
    assert [(change.subject, change.want) for change in changes] == [
        ("GUID of VF 0 of eth0", GUIDS[0]),
        ("GUID of VF 1 of eth0", GUIDS[1]),
    ]
    assert [type(operation) for operation in changes[0].operations][1:] == [Rebind]
    for change in changes:
        kernel.host.send(*(operation for operation in change.operations if isinstance(operation, Message)))
    guards = [kernel.drivers.guards["eth0", number] for number in (0, 1)]
    assert [(guard.node_guid, guard.port_guid) for guard in guards] == [(guid, guid) for guid in GUIDS]
    assert {guard.link_state for guard in guards} == {"auto" if state == "disable" else state}
    for number in (0, 1):
        grow(kernel.locate(number), {f"infiniband/mlx5_{number}/node_guid": f"{GUIDS[number]}\n"})
    assert compare(kernel.host.machine, settings).changes == ()


def test_a_container_leaves_addresses_to_its_host(kernel: Kernel) -> None:
    kernel.host.machine.write_attribute(f"/sys/bus/pci/devices/{PCI}/sriov_numvfs", "2")
    grow(kernel.host.machine.root, {"/run/systemd/container": "docker\n"})
    assert compare(Machine(kernel.host.machine.root, kernel.host.machine.netns), wanted()).changes == ()
