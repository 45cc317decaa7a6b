"""ice's model by itself: messages that upstream accepts, and messages that it refuses."""

from __future__ import annotations

import errno

from tests.drivers.conftest import Rig
from tests.drivers.ice import Ice
from tests.drivers.requests import (
    HALVES,
    LOSSLESS,
    MAC,
    STRICT,
    attempt,
    attempt_all,
    create_vfs,
    list_vfs,
    read_dcb,
    read_vf_mac,
    set_dcbx,
    set_vf,
    to_bytes,
)
from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.dcb import App, build_dscp_app


def test_ice_refuses_everything_while_the_firmware_agent_runs(rig: Rig) -> None:
    place, hardware = rig(Ice)
    messages = [
        dcb.build_set_ets("eth0", HALVES),
        dcb.build_set_pfc("eth0", LOSSLESS),
        dcb.build_add_apps("eth0", [build_dscp_app(26, 3)]),
    ]
    assert attempt_all(place, messages) == [errno.EINVAL] * 3
    assert set_dcbx(place, 0x09) == 1
    port = hardware.ports[0]
    assert isinstance(port, Ice)
    port.set_firmware_agent(on=False)
    assert attempt_all(place, messages) == [0] * 3


def test_ice_changes_to_a_fixed_map_with_the_first_codepoint(rig: Rig) -> None:
    place, _ = rig(Ice, firmware_agent=False)
    assert attempt(place, dcb.build_set_ets("eth0", HALVES)) == 0
    assert attempt(place, dcb.build_add_apps("eth0", [build_dscp_app(26, 3)])) == 0
    state = read_dcb(place).ets
    assert state is not None
    assert (state.classes, state.tx_bandwidth[:4]) == ((0, 1, 2, 3, 4, 5, 6, 7), (100, 0, 0, 0))
    assert attempt(place, dcb.build_set_ets("eth0", HALVES)) == 0
    state = read_dcb(place).ets
    assert state is not None
    assert (state.classes, state.tx_bandwidth[:4]) == ((0, 1, 2, 3, 4, 5, 6, 7), (50, 50, 0, 0))


def test_ice_takes_one_priority_of_a_codepoint(rig: Rig) -> None:
    place, _ = rig(Ice, firmware_agent=False)
    apps = [build_dscp_app(26, 3), build_dscp_app(26, 5), App(1, 0, 3)]
    assert attempt_all(place, [dcb.build_add_apps("eth0", [app]) for app in apps]) == [0, errno.EINVAL, errno.EINVAL]
    assert read_dcb(place).apps == (build_dscp_app(26, 3),)
    assert attempt(place, dcb.build_delete_apps("eth0", apps[:1])) == 0
    state = read_dcb(place).ets
    assert state is not None
    assert state.classes == STRICT


def test_ice_refuses_shares_that_do_not_add_up_where_classes_are_several(rig: Rig) -> None:
    place, _ = rig(Ice, firmware_agent=False)
    short = HALVES._replace(tx_bandwidth=(40, 50, *(0,) * 6))
    alone = short._replace(classes=STRICT)
    messages = [dcb.build_set_ets("eth0", ets) for ets in (short, alone)]
    assert attempt_all(place, messages) == [errno.EINVAL, 0]


def test_ice_takes_the_interface_down_and_up_at_each_change(rig: Rig) -> None:
    place, hardware = rig(Ice, firmware_agent=False)
    port = hardware.ports[0]
    assert isinstance(port, Ice)
    pfc = dcb.build_set_pfc("eth0", LOSSLESS)
    assert (attempt_all(place, [pfc, pfc]), port.resets) == ([0, 0], 1)


def test_ice_restarts_a_vf_with_its_address(rig: Rig) -> None:
    place, hardware = rig(Ice)
    create_vfs(place, 1)
    assert list_vfs(place)[0].spoof_check
    assert hardware.ports[0].passes(0, to_bytes(read_vf_mac(place)))
    assert set_vf(place, mac=MAC) == 0
    assert read_vf_mac(place) == MAC
    assert set_vf(place, mac="01:00:5e:00:00:01") == errno.EINVAL
