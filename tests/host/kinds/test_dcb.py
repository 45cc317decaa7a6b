import errno
from dataclasses import replace

import pytest

from tests.host.nics import Drivers, install
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import nic
from trackbed.host.change import Change
from trackbed.host.kinds import mtu
from trackbed.host.kinds.dcb_wants import DcbDscp, DcbEts, DcbPfc
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.dcb import Dcb, Ets, Pfc, build_dscp_app
from trackbed.kernel.netlink.links import get_link

HOST = dcb.DCB_CAP_DCBX_HOST | dcb.DCB_CAP_DCBX_VER_IEEE
TOGETHER = Ets(
    willing=False,
    capacity=8,
    credit_based_shaper=False,
    tx_bandwidth=(100, 0, 0, 0, 0, 0, 0, 0),
    rx_bandwidth=(100, 0, 0, 0, 0, 0, 0, 0),
    algorithms=(2, 0, 0, 0, 0, 0, 0, 0),
    classes=(0, 0, 0, 0, 0, 0, 0, 0),
)
ALONE = TOGETHER._replace(classes=(0, 1, 2, 3, 4, 5, 6, 7))
FRESH = Dcb(TOGETHER, Pfc(8, frozenset({1}), delay=7), (build_dscp_app(10, 1), build_dscp_app(26, 0)), (255, 5), HOST)


def wanted(spec: str = "") -> tuple[Setting, ...]:
    node = node_plan(P2P, "[{netdev: eth0}, {netdev: eth1}]", spec=spec)
    return tuple(item for item in iter_settings(node, {"qos"}) if isinstance(item.want, DcbDscp | DcbPfc | DcbEts))


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> Drivers:
    """Port eth0 has DCB, eth1 has none."""
    made = Drivers({"eth0": FRESH})
    install(made, monkeypatch)
    return made


def changes(place: Host) -> tuple[Change, ...]:
    return compare(place.machine, wanted()).changes


def test_dscp_pfc_and_classes_are_set_once_and_undone(place: Host, drivers: Drivers) -> None:
    assert [(change.subject, change.have, change.want) for change in changes(place)] == [
        ("traffic classes of eth0", "priority 3 with 0,1,2,4,5,6,7", "priority 3 alone"),
        ("PFC of eth0", "1", "3"),
        ("priorities of DSCPs on eth0", "26:0 48:none, not trusted", "26:3 48:6"),
    ]
    apply(place.machine, wanted(), place.records)
    now = drivers.bridges["eth0"]
    assert dcb.group_dscp_priorities(now.apps) == {26: {3}, 48: {6}, 10: {1}}
    assert now.trust == (5, 255)
    assert now.pfc == Pfc(8, frozenset({3}), delay=7)
    assert now.ets == TOGETHER._replace(
        tx_bandwidth=(50, 50, 0, 0, 0, 0, 0, 0),
        algorithms=(2, 2, 0, 0, 0, 0, 0, 0),
        classes=(0, 0, 0, 1, 0, 0, 2, 0),
    )
    assert changes(place) == ()
    assert undo(place.machine, place.records) == ()
    assert drivers.bridges["eth0"] == FRESH


def test_entries_that_others_made_meanwhile_stay(place: Host, drivers: Drivers) -> None:
    apply(place.machine, wanted(), place.records)
    now = drivers.bridges["eth0"]
    drivers.bridges["eth0"] = replace(now, apps=(*now.apps, build_dscp_app(34, 4)))
    undo(place.machine, place.records)
    assert dcb.group_dscp_priorities(drivers.bridges["eth0"].apps) == {26: {0}, 10: {1}, 34: {4}}


def test_a_priority_that_is_alone_in_its_class_keeps_it(place: Host, drivers: Drivers) -> None:
    drivers.bridges["eth0"] = replace(FRESH, ets=ALONE)
    assert "traffic classes of eth0" not in [change.subject for change in changes(place)]


def test_without_pfc_in_the_plan_nothing_is_paused(place: Host, drivers: Drivers) -> None:
    apply(place.machine, wanted("  qos: {pfc: false}\n"), place.records)
    pfc = drivers.bridges["eth0"].pfc
    assert pfc is not None
    assert pfc.priorities == frozenset()


def test_a_port_without_dcb_is_skipped_with_that_reason(place: Host, drivers: Drivers) -> None:
    drivers.bridges.clear()
    comparison = compare(place.machine, wanted())
    assert comparison.changes == ()
    assert [(skipped.subject, skipped.reason) for skipped in comparison.skipped] == [
        ("traffic classes of eth0 and 5 more of step qos", "this port's driver has no DCB")
    ]


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        pytest.param(replace(FRESH, pfc=None), "this port's driver tells of no PFC", id="no PFC"),
        pytest.param(replace(FRESH, pfc=Pfc(0, frozenset())), "this port can pause 0 priorities", id="none to pause"),
        pytest.param(replace(FRESH, ets=None), "this port has one traffic class", id="no ETS"),
        pytest.param(
            replace(FRESH, ets=TOGETHER._replace(capacity=1)), "this port has one traffic class", id="one class"
        ),
    ],
)
def test_what_a_driver_lacks_is_skipped_and_the_rest_set(place: Host, drivers: Drivers, held: Dcb, reason: str) -> None:
    drivers.bridges["eth0"] = held
    comparison = compare(place.machine, wanted())
    assert reason in [skipped.reason for skipped in comparison.skipped]
    assert "priorities of DSCPs on eth0" in [change.subject for change in comparison.changes]


def test_a_device_with_two_classes_puts_notices_with_all_others(place: Host, drivers: Drivers) -> None:
    drivers.bridges["eth0"] = replace(FRESH, ets=TOGETHER._replace(capacity=2))
    apply(place.machine, wanted(), place.records)
    ets = drivers.bridges["eth0"].ets
    assert ets is not None
    assert ets.classes == (0, 0, 0, 1, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("dcbx", "ours"),
    [(None, True), (0, True), (HOST, True), (dcb.DCB_CAP_DCBX_LLD_MANAGED | dcb.DCB_CAP_DCBX_VER_IEEE, False)],
    ids=["no DCBX", "none at work", "the host's", "the firmware's"],
)
def test_a_port_whose_firmware_negotiates_is_left_to_a_person(
    place: Host, drivers: Drivers, dcbx: int | None, *, ours: bool
) -> None:
    drivers.bridges["eth0"] = replace(FRESH, dcbx=dcbx)
    changed = changes(place)
    assert {bool(change.operations) for change in changed} == {ours}
    assert ("dcb dcbx set dev eth0 host ieee" in changed[0].advice) is not ours


def test_a_refusal_of_the_driver_is_reported_and_everything_else_stays(place: Host, drivers: Drivers) -> None:
    drivers.refuses = errno.EPERM
    mtu_wanted = Setting("addresses", mtu.Want("eth1", 1400), 1, "packets as large as planned")
    done = apply(place.machine, (mtu_wanted, *wanted()), place.records)
    assert [change.subject for change in done.changes] == ["MTU of eth1"]
    refused = {change.subject: change.advice for change in done.remaining.changes}
    reason = "setting 26:3 48:6 was refused: Operation not permitted"
    assert refused["priorities of DSCPs on eth0"] == f"priorities of DSCPs on eth0: {reason}"
    assert set(refused) == {"traffic classes of eth0", "PFC of eth0", "priorities of DSCPs on eth0"}
    assert not any(change.operations for change in done.remaining.changes)
    with place.machine.open_socket() as sock:
        assert get_link(sock, "eth1").mtu == 1400
    assert drivers.bridges["eth0"] == FRESH


def driven(place: Host, driver: str) -> None:
    """Port eth0 has this driver."""
    device = nic(place.machine.root, "eth0", "0000:18:00.0")
    (place.machine.root / "drivers" / driver).mkdir(parents=True)
    (device / "driver").symlink_to(place.machine.root / "drivers" / driver)


NEGOTIATED = replace(FRESH, dcbx=dcb.DCB_CAP_DCBX_VER_IEEE)


def test_mlx5_lets_the_host_negotiate_and_undo_gives_it_back_to_the_firmware(place: Host, drivers: Drivers) -> None:
    driven(place, "mlx5_core")
    drivers.bridges["eth0"] = NEGOTIATED
    apply(place.machine, wanted(), place.records)
    assert drivers.bridges["eth0"].dcbx == HOST
    assert changes(place) == ()
    assert undo(place.machine, place.records) == ()
    assert drivers.bridges["eth0"] == NEGOTIATED


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("bnxt_en", "set the DCBX mode in the NVRAM of eth0 to disabled"),
        ("ice", "run on this host: ethtool --set-priv-flags eth0 fw-lldp-agent off, then trackbed apply"),
    ],
)
def test_a_driver_that_refuses_host_mode_says_what_to_do(
    place: Host, drivers: Drivers, driver: str, words: str
) -> None:
    driven(place, driver)
    drivers.bridges["eth0"] = NEGOTIATED
    assert {words in change.advice for change in changes(place)} == {True}
    assert apply(place.machine, wanted(), place.records).changes == ()


IDENTITY = ALONE._replace(tx_bandwidth=(100, 0, 0, 0, 0, 0, 0, 0), algorithms=(2,) * 8)
"""ETS of ice after the first DSCP entry (ice_dcbnl_setapp)."""


def test_on_ice_the_class_of_a_priority_is_the_priority_and_gets_bandwidth(place: Host, drivers: Drivers) -> None:
    driven(place, "ice")
    drivers.bridges["eth0"] = replace(FRESH, ets=IDENTITY)
    assert "no bandwidth" in [change.have for change in changes(place)]
    apply(place.machine, wanted(), place.records)
    ets = drivers.bridges["eth0"].ets
    assert ets == IDENTITY._replace(tx_bandwidth=(40, 0, 0, 50, 0, 0, 10, 0))
    assert changes(place) == ()


def test_on_ice_with_four_classes_notices_get_the_highest(place: Host, drivers: Drivers) -> None:
    driven(place, "ice")
    drivers.bridges["eth0"] = replace(FRESH, ets=IDENTITY._replace(capacity=4))
    apply(place.machine, wanted(), place.records)
    assert dcb.group_dscp_priorities(drivers.bridges["eth0"].apps) == {26: {3}, 48: {2}, 10: {1}}
    ets = drivers.bridges["eth0"].ets
    assert ets is not None
    assert (ets.tx_bandwidth, ets.classes) == ((40, 0, 10, 50, 0, 0, 0, 0), (0, 1, 2, 3, 0, 0, 0, 0))


def test_undo_tells_what_a_driver_refused(place: Host, drivers: Drivers) -> None:
    apply(place.machine, wanted(), place.records)
    drivers.refuses = errno.EPERM
    assert undo(place.machine, place.records) == ("DCB of eth0: Operation not permitted",)
