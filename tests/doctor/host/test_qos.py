"""Each fault of step qos, put into a sound host, is what doctor names first; the sound host has none.

The host has ConnectX ports with DOCA-OFED: files as its driver lays them out (qos, ecn, tc of mlx5), configfs as
drivers/infiniband/core/cma_configfs.c writes it, ethtool 6.7 for pause and counters (names of mlx5/core/en_stats.c).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.doctor.host.changing import change_host, change_plan, combine
from tests.doctor.host.sound_services import find_first_fault, list_findings
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.view import NodeView
from trackbed.host.kinds.file import BOOT_SCRIPT as SCRIPT
from trackbed.host.kinds.file import BOOT_WANTED as WANTED
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.dcb import DCB_CAP_DCBX_HOST, DCB_CAP_DCBX_LLD_MANAGED, Dcb, Ets, Pfc, build_dscp_app

QOS = ("qos",)
RAIL = "rail1"
ZEROS = (0, 0, 0, 0, 0, 0, 0, 0)
NET, CM = f"/sys/class/net/{RAIL}", f"/sys/kernel/config/rdma_cm/{RAIL}/ports/1"
COUNTS = f"{NET}/device/infiniband/{RAIL}/ports/1/hw_counters"
CC = f"{NET}/ecn/roce_np"
PAUSE = "Pause parameters for rail1:\nAutonegotiate:\toff\nRX:\t\t{rx}\nTX:\t\t{tx}\n"
STATISTICS = """\
NIC statistics:
     rx_packets: 90000000
     rx_prio3_packets: 80000000
     rx_prio3_discards: {drops}
     rx_prio0_discards: 900
     tx_pause_storm_warning_events: 0
     tx_pause_storm_error_events: {storms}
"""
BRIDGING = Dcb(
    ets=Ets(
        willing=False,
        capacity=8,
        credit_based_shaper=False,
        tx_bandwidth=ZEROS,
        rx_bandwidth=ZEROS,
        algorithms=ZEROS,
        classes=(1, 0, 2, 3, 4, 5, 6, 7),
    ),
    pfc=Pfc(8, frozenset({3})),
    apps=(build_dscp_app(26, 3), build_dscp_app(48, 6)),
    trust=None,
    dcbx=DCB_CAP_DCBX_HOST,
)


def build_files(netdev: str) -> dict[str, str]:
    net, cm = f"/sys/class/net/{netdev}", f"/sys/kernel/config/rdma_cm/{netdev}/ports/1"
    device = f"{net}/device/infiniband/{netdev}"
    return {
        f"{net}/qos/trust": "dscp\n",
        **{f"{net}/ecn/{side}/enable/3": "1\n" for side in ("roce_np", "roce_rp")},
        f"{net}/ecn/roce_np/cnp_dscp": "48\n",
        f"{net}/ecn/roce_np/cnp_802p_prio": "6\n",
        f"{device}/tc/1/traffic_class": "Global tclass=106\n",
        f"{cm}/default_roce_tos": "106\n",
        f"{cm}/default_roce_mode": "RoCE v2\n",
    }


def build_view() -> NodeView:
    view = build_sound_view(compute_small_plan().nodes[0])
    names = [port.netdev for port in view.node.ports]
    files = {SCRIPT: "#!/bin/sh\n", WANTED: "[Unit]\n"} | {k: v for name in names for k, v in build_files(name).items()}
    outputs: dict[tuple[str, ...], ProgramResult] = {
        ("ethtool", option, name): ProgramResult(0, text)
        for name in names
        for option, text in (("-a", PAUSE.format(rx="off", tx="off")), ("-S", STATISTICS.format(drops=3, storms=0)))
    }
    folders = {f"/sys/class/net/{name}/device/infiniband": (name,) for name in names}
    snapshot = Snapshot({path: text.encode() for path, text in files.items()}, {}, folders, outputs)
    return replace(view, host=snapshot, dcb=dict.fromkeys(names, BRIDGING))


def change_dcb(**changes: Any) -> Callable[[NodeView], NodeView]:
    return lambda view: replace(view, dcb={**view.dcb, RAIL: replace(view.dcb[RAIL], **changes)})


def change_classes(*classes: int) -> Callable[[NodeView], NodeView]:
    ets: Any = BRIDGING.ets
    return change_dcb(ets=ets._replace(classes=classes))


def change_file(path: str, text: str | None) -> Callable[[NodeView], NodeView]:
    return change_host(files={path: text})


def change_output(option: str, text: str) -> Callable[[NodeView], NodeView]:
    return change_host(outputs={("ethtool", option, RAIL): ProgramResult(0, text)})


def set_counters(**counts: int) -> Callable[[NodeView], NodeView]:
    """Set the counters of a driver without the files of ECN."""
    files: dict[str, str | None] = {f"{NET}/ecn/{side}/enable/3": None for side in ("roce_np", "roce_rp")}
    return change_host(files=files | {f"{COUNTS}/{name}": f"{value}\n" for name, value in counts.items()})


FAULTS: dict[str, tuple[str, Callable[[NodeView], NodeView]]] = {
    "trust is pcp": ("qos-trust-not-dscp", change_file(f"{NET}/qos/trust", "pcp\n")),
    "no DSCP is named, and no file of trust": (
        "qos-trust-not-dscp",
        combine(change_file(f"{NET}/qos/trust", None), change_dcb(apps=())),
    ),
    "the port sorts by PCP": (
        "qos-trust-not-dscp",
        combine(change_file(f"{NET}/qos/trust", None), change_dcb(trust=(255,))),
    ),
    "PFC is off": ("qos-pfc-off", change_dcb(pfc=Pfc(8, frozenset()))),
    "PFC on another too": ("qos-pfc-extra-or-wrong-priority", change_dcb(pfc=Pfc(8, frozenset({3, 4})))),
    "link-level pause": ("qos-global-pause-on", change_output("-a", PAUSE.format(rx="on", tx="on"))),
    "RDMA's DSCP has another priority": (
        "qos-dscp-map-wrong",
        change_dcb(apps=(build_dscp_app(26, 4), build_dscp_app(48, 6))),
    ),
    "that of notices too": ("qos-dscp-map-wrong", change_dcb(apps=(build_dscp_app(26, 3), build_dscp_app(48, 3)))),
    "no notices": ("qos-ecn-notification-off", change_file(f"{CC}/enable/3", "0\n")),
    "marks that nobody answered": (
        "qos-ecn-notification-off",
        set_counters(np_ecn_marked_roce_packets=5000, np_cnp_sent=0),
    ),
    "no reaction": ("qos-ecn-reaction-off", change_file(f"{NET}/ecn/roce_rp/enable/3", "0\n")),
    "notices that were ignored": ("qos-ecn-reaction-off", set_counters(rp_cnp_ignored=700, rp_cnp_handled=0)),
    "notices have another DSCP": ("qos-cnp-dscp-wrong", change_file(f"{CC}/cnp_dscp", "46\n")),
    "notices have another priority": ("qos-cnp-dscp-wrong", change_file(f"{CC}/cnp_802p_prio", "5\n")),
    "no traffic class": (
        "qos-traffic-class-not-forced",
        change_file(f"{NET}/device/infiniband/{RAIL}/tc/1/traffic_class", ""),
    ),
    "rdma_cm's class": ("qos-rdma-cm-tos-wrong", change_file(f"{CM}/default_roce_tos", "0\n")),
    "rdma_cm's mode": ("qos-rdma-cm-roce-v1", change_file(f"{CM}/default_roce_mode", "IB/RoCE v1\n")),
    "firmware negotiates": ("qos-dcbx-firmware-managed", change_dcb(dcbx=DCB_CAP_DCBX_LLD_MANAGED)),
    "ConnectX's firmware negotiates": ("qos-dcbx-firmware-managed", change_dcb(dcbx=0x0C)),
    "nothing at boot": ("qos-not-persistent", change_file(WANTED, None)),
    "a class is shared": ("qos-ets-shares-traffic-class", change_classes(3, 0, 2, 3, 4, 5, 6, 7)),
    "packets were dropped": ("qos-lossless-drops", change_output("-S", STATISTICS.format(drops=9000, storms=0))),
    "a storm of pauses": ("qos-pause-storm", change_output("-S", STATISTICS.format(drops=0, storms=2))),
}


@pytest.mark.parametrize(("fault", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, change: Callable[[NodeView], NodeView]) -> None:
    assert find_first_fault(change(build_view()), QOS) == fault


def test_a_sound_host_passes_all_of_them() -> None:
    findings = list_findings(build_view(), QOS)
    assert {finding.id for finding in findings} == {fault for fault, _ in FAULTS.values()}
    assert {finding.verdict for finding in findings} == {"pass"}


def test_ports_without_bridging_and_without_files_of_a_driver_have_nothing_to_judge() -> None:
    pauses = Snapshot(outputs={("ethtool", "-a", RAIL): ProgramResult(0, PAUSE.format(rx="on", tx="on"))})
    assert list_findings(replace(build_view(), host=pauses, dcb={}), QOS) == ()


def test_infiniband_has_no_classes_of_ethernet() -> None:
    assert list_findings(change_plan(link_type="infiniband")(build_view()), QOS) == ()
