"""bnxt_en's model by itself: messages that upstream accepts, and messages that it refuses."""

from __future__ import annotations

import errno

from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.requests import (
    HALVES,
    LOSSLESS,
    attempt,
    attempt_all,
    create_vfs,
    list_vfs,
    read_dcb,
    read_vf_mac,
    set_dcbx,
    set_vf,
)
from trackbed.kernel.netlink import dcb, links, vfs
from trackbed.kernel.netlink.dcb import Pfc, build_dscp_app


def test_bnxt_takes_pfc_after_ets_and_for_as_many_classes_as_it_has_lossless_queues(rig: Rig) -> None:
    place, _ = rig(Bnxt)
    pfc, ets = dcb.build_set_pfc("eth0", LOSSLESS), dcb.build_set_ets("eth0", HALVES)
    assert attempt_all(place, [pfc, ets, pfc]) == [errno.EINVAL, 0, 0]
    spread = HALVES._replace(classes=(0, 1, 2, 3, 4, 5, 6, 7), tx_bandwidth=(20,) * 5 + (0,) * 3)
    many = dcb.build_set_pfc("eth0", Pfc(8, frozenset({1, 2, 3})))
    assert attempt_all(place, [dcb.build_set_ets("eth0", spread), many]) == [0, errno.EINVAL]


def test_bnxt_refuses_ets_that_starves_a_class_or_exceeds_its_bandwidth(rig: Rig) -> None:
    place, _ = rig(Bnxt)
    three = (0, 0, 0, 2, 0, 0, 0, 1)
    both = (2, 2, *(0,) * 6)
    starving = HALVES._replace(classes=three, tx_bandwidth=(100, 0, *(0,) * 6), algorithms=both)
    vendor = HALVES._replace(classes=three, algorithms=(255, 2, *(0,) * 6))
    messages = [dcb.build_set_ets("eth0", ets) for ets in (starving, vendor)]
    assert attempt_all(place, messages) == [errno.EINVAL, errno.EOPNOTSUPP]


def test_bnxt_refuses_everything_while_the_nvram_gives_dcbx_to_the_firmware(rig: Rig) -> None:
    place, _ = rig(Bnxt, firmware_lldp=True)
    messages = [
        dcb.build_set_ets("eth0", HALVES),
        dcb.build_set_pfc("eth0", LOSSLESS),
        dcb.build_add_apps("eth0", [build_dscp_app(26, 3)]),
    ]
    assert attempt_all(place, messages) == [errno.EINVAL] * 3
    assert (set_dcbx(place, 0x09), read_dcb(place).dcbx) == (1, 0x0A)


def test_bnxt_keeps_several_priorities_of_a_codepoint_and_refuses_one_twice(rig: Rig) -> None:
    place, _ = rig(Bnxt)
    apps = [build_dscp_app(26, 3), build_dscp_app(26, 5), build_dscp_app(26, 3)]
    assert attempt_all(place, [dcb.build_add_apps("eth0", [app]) for app in apps]) == [0, 0, errno.EEXIST]
    assert attempt(place, dcb.build_delete_apps("eth0", [build_dscp_app(26, 4)])) == errno.ENOENT


def test_bnxt_without_dscp_says_so(rig: Rig) -> None:
    place, _ = rig(Bnxt, has_dscp=False)
    assert attempt(place, dcb.build_add_apps("eth0", [build_dscp_app(26, 3)])) == errno.EOPNOTSUPP


def test_bnxt_creates_no_vfs_on_a_port_that_is_down_and_reports_success(rig: Rig) -> None:
    place, hardware = rig(Bnxt)
    assert (create_vfs(place, 2), len(hardware.ports[0].vfs)) == (0, 0)
    place.send(links.build_set_link(place.index("eth0"), up=True))
    assert (create_vfs(place, 2), len(hardware.ports[0].vfs)) == (0, 2)
    assert list_vfs(place)[0].mac == read_vf_mac(place)
    assert set_vf(place, vlan=vfs.VfVlan(5, 1)) == errno.EINVAL
