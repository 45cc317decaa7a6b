"""The whole apply, and its undo, against each driver's model: what is as planned then, and what the user reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.hardware import Hardware
from tests.drivers.ice import Ice
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5, Mlx5InfiniBand
from tests.drivers.others import Efa, Ionic
from tests.drivers.place import apply_plan, furnish, read_interface_mac, read_state
from tests.drivers.port import Port
from tests.drivers.rules import KERNEL
from tests.host.places import Host, everything
from tools.pages.support_page import iter_marks
from trackbed.host.transaction.apply import ApplyResult, undo
from trackbed.kernel.netlink.dcb import build_dscp_app
from trackbed.kernel.netlink.links import build_set_link

DSCPS = frozenset({build_dscp_app(26, 3), build_dscp_app(48, 6)})
PAUSED = frozenset({3})
TOS = 106
ETS, STRICT = 2, 0


def make_place(rig: Rig, driver: type[Port], **fields: object) -> tuple[Host, Hardware]:
    place, hardware = rig(driver, **fields)
    return furnish(place), hardware


def read_remaining(result: ApplyResult) -> dict[str, str]:
    """Return what the user is told of each difference that stays, by what differs."""
    return {change.subject: change.advice for change in result.remaining.changes}


def check_vfs_send(place: Host, hardware: Hardware) -> None:
    """Each VF has an address of its own, which its port and its interface agree on and with which it may send."""
    addresses = set()
    for rail, port in enumerate(hardware.ports):
        for vf in port.vfs:
            mac = read_interface_mac(place, rail, vf.number)
            assert vf.mac.hex(":") == mac
            assert port.passes(vf.number, vf.mac)
            addresses.add(mac)
    assert len(addresses) == 4
    assert all(device.node_guid for device in hardware.rdma.devices)


def check_undo(place: Host, before: object, hardware: Hardware) -> None:
    assert undo(place.machine, place.records) == ()
    assert read_state(place, hardware) == before


@pytest.mark.support("NIC driver", "mlx5", "modelled", "apply and undo, Ethernet; rules cited: 26")
def test_mlx5_vfs_send_after_apply_and_everything_is_undone(rig: Rig) -> None:
    place, hardware = make_place(rig, Mlx5)
    before = read_state(place, hardware)
    assert read_remaining(apply_plan(place)) == {}
    check_vfs_send(place, hardware)
    ports, names, tos = read_state(place, hardware)
    assert [(port.apps, port.pfc) for port in ports] == [(DSCPS, PAUSED)] * 2
    assert all(vf.spoof_check and not vf.trust for port in ports for vf in port.vfs)
    assert (names[::3], tos[::3]) == (["rail0", "rail1"], [TOS, TOS])
    assert apply_plan(place).changes == ()
    check_undo(place, before, hardware)


def test_mlx5_in_dpu_mode_takes_all_but_trust_and_spoof_check_says_why_and_is_undone(rig: Rig) -> None:
    place, hardware = make_place(rig, Mlx5, dpu_mode=True)
    before = read_state(place, hardware)
    remaining = read_remaining(apply_plan(place))
    assert sorted(remaining) == ["VF 0 of eth0", "VF 0 of eth1", "VF 1 of eth0", "VF 1 of eth1"]
    assert all("DPU mode" in advice for advice in remaining.values()), remaining
    assert [port.apps for port in read_state(place, hardware)[0]] == [DSCPS] * 2
    check_vfs_send(place, hardware)
    assert apply_plan(place).changes == ()
    check_undo(place, before, hardware)


def test_mlx5_whose_firmware_negotiates_gives_dcb_to_the_host(rig: Rig) -> None:
    place, hardware = make_place(rig, Mlx5, cap=0x0C)
    assert read_remaining(apply_plan(place)) == {}
    assert [port.dcbx & 1 for port in hardware.ports] == [1, 1]
    assert [port.apps for port in read_state(place, hardware)[0]] == [DSCPS] * 2


@pytest.mark.support("NIC driver", "mlx5", "modelled", "apply and undo, InfiniBand; rules cited: 5")
def test_mlx5_infiniband_vfs_have_guids_and_a_link_after_apply(rig: Rig) -> None:
    place, hardware = make_place(rig, Mlx5InfiniBand)
    before = read_state(place, hardware)
    assert read_remaining(apply_plan(place, "  linkType: infiniband\n")) == {}
    for port in hardware.ports:
        assert all(vf.node_guid and port.passes(vf.number, b"") for vf in port.vfs)
    guids = [device.node_guid for device in hardware.rdma.devices]
    assert len(set(guids)) == len(guids)
    assert undo(place.machine, place.records) == ()
    assert [port.vfs for port in read_state(place, hardware)[0]] == [port.vfs for port in before[0]]


@pytest.mark.support("NIC driver", "bnxt_en", "modelled", "apply and undo; rules cited: 17")
def test_bnxt_has_ets_pfc_and_dscp_after_apply_and_everything_is_undone(rig: Rig) -> None:
    place, hardware = make_place(rig, Bnxt)
    before = read_state(place, hardware)
    assert read_remaining(apply_plan(place)) == {}
    check_vfs_send(place, hardware)
    for port in read_state(place, hardware)[0]:
        assert port.ets is not None
        assert (port.apps, port.pfc, port.ets.classes[3]) == (DSCPS, PAUSED, 1)
        assert [number for number in port.ets.classes if number == 1] == [1]
    assert apply_plan(place).changes == ()
    check_undo(place, before, hardware)


def test_bnxt_that_ignores_a_count_because_its_port_is_down_is_told_of_at_undo(rig: Rig) -> None:
    place, hardware = make_place(rig, Bnxt)
    apply_plan(place)
    place.send(build_set_link(place.index("eth0"), up=False))
    assert [failure.partition(": ")[2] for failure in undo(place.machine, place.records)][:1] == [
        "the driver ignored 0; bnxt_en does while the port is down"
    ]
    assert [len(port.vfs) for port in hardware.ports] == [2, 0]


def test_bnxt_whose_nvram_gives_dcbx_to_the_firmware_keeps_all_else_and_says_what_to_do(rig: Rig) -> None:
    place, hardware = make_place(rig, Bnxt, firmware_lldp=True)
    remaining = read_remaining(apply_plan(place))
    assert {subject.partition(" of ")[0] for subject in remaining} == {"PFC", "traffic classes", "priorities"}
    assert all("NVRAM" in advice for advice in remaining.values()), remaining
    check_vfs_send(place, hardware)


@pytest.mark.support("NIC driver", "ice/irdma", "modelled", "apply and undo; rules cited: 22")
def test_ice_gives_rdma_the_class_of_its_priority_and_keeps_its_routes(rig: Rig) -> None:
    place, hardware = make_place(rig, Ice, firmware_agent=False)
    before = read_state(place, hardware)
    assert read_remaining(apply_plan(place)) == {}
    check_vfs_send(place, hardware)
    for port in read_state(place, hardware)[0]:
        assert port.ets is not None
        assert (port.apps, port.pfc, port.ets.classes[3], port.ets.algorithms[3]) == (DSCPS, PAUSED, 3, ETS)
        assert port.ets.tx_bandwidth[3] >= 50
    listing = everything(place.machine)
    assert apply_plan(place).changes == ()
    assert everything(place.machine) == listing
    check_undo(place, before, hardware)


def test_ice_whose_firmware_agent_runs_keeps_all_else_and_says_what_to_do(rig: Rig) -> None:
    place, hardware = make_place(rig, Ice)
    remaining = read_remaining(apply_plan(place))
    assert {subject.partition(" of ")[0] for subject in remaining} == {"PFC", "traffic classes", "priorities"}
    assert all("fw-lldp-agent off" in advice for advice in remaining.values()), remaining
    check_vfs_send(place, hardware)


@pytest.mark.support("NIC driver", "igb", "modelled", "apply and undo; rules cited: 8")
def test_igb_vfs_send_after_apply_and_everything_is_undone(rig: Rig) -> None:
    place, hardware = make_place(rig, Igb)
    before = read_state(place, hardware)
    assert read_remaining(apply_plan(place)) == {}
    check_vfs_send(place, hardware)
    assert apply_plan(place).changes == ()
    check_undo(place, before, hardware)


@pytest.mark.support("NIC driver", "ionic", "modelled", "apply and undo, no DCB; rules cited: 4")
def test_ionic_vfs_send_after_apply_and_dcb_is_left_out(rig: Rig) -> None:
    place, hardware = make_place(rig, Ionic)
    before = read_state(place, hardware)
    result = apply_plan(place)
    assert read_remaining(result) == {}
    assert "this port's driver has no DCB" in {skipped.reason for skipped in result.remaining.skipped}
    check_vfs_send(place, hardware)
    check_undo(place, before, hardware)


def test_each_row_of_the_table_of_drivers_counts_the_rules_of_its_model() -> None:
    models: dict[str, list[type[Port]]] = {
        "mlx5": [Mlx5, Mlx5InfiniBand],
        "bnxt_en": [Bnxt],
        "ice/irdma": [Ice],
        "igb": [Igb],
        "ionic": [Ionic],
        "efa": [Efa],
    }
    marks = [mark for mark in iter_marks(Path(__file__).parents[1]) if "rules cited" in mark.where]
    assert {mark.name for mark in marks} >= {"mlx5", "bnxt_en", "ice/irdma", "igb", "ionic"}
    for mark in marks:
        counts = {len(model.rules) for model in models[mark.name]}
        assert int(mark.where.rpartition("rules cited: ")[2]) in counts, (mark, counts)
    assert len(KERNEL) > 10
