"""Each fault of the VFs, put into a sound host, is what doctor names first."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from tests.doctor.host.changing import Fault, change_host, change_plan, change_port, change_vf, combine, limit_steps
from tests.doctor.host.sound_vfs import CHECKPOINT, POD, build_view, compute_vfs_plan, get_mac, get_vf_pci, locate_vf
from tests.doctor.sound import build_link
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.view import NodeView, PodInterface, PodView
from trackbed.host.runner import ProgramResult

PLAN = compute_vfs_plan()
NODE = PLAN.nodes[0]
check_vfs = partial(run_checks, steps=("vfs",))
DEVICE = "/sys/class/net/rail1/device"
IPOIB = "00:00:01:49:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:00:00:01"
"""Hardware address of an IPoIB port, which ip(8) shows for each of its VFs."""


def add_bond(view: NodeView) -> NodeView:
    view = change_port(master=60)(view)
    bond = build_link(60, "bond0", "02:00:00:00:00:0b")._replace(kind="bond")
    return replace(view, state=replace(view.state, links=(*view.state.links, bond)))


def remove_vf(number: int) -> Fault:
    """Remove a VF from the sysfs of its port."""
    here = locate_vf(1, number)
    return change_host(
        links={here: None, f"{here}/driver": None}, folders={f"{here}/net": None, f"{here}/infiniband": None}
    )


def remove_vfs(count: str) -> Fault:
    return combine(remove_vf(0), remove_vf(1), change_host({f"{DEVICE}/sriov_numvfs": count}))


NOT_HELD = change_host(
    {CHECKPOINT: '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}'}, folders={"/run/netns": ()}
)
NO_ROOM = "[    9.127] mlx5_core 0000:3b:00.0: can't enable 2 VFs (bus 3c out of range of [bus 3b])\n"
REPRESENTOR = f"{DEVICE}/net/rail1_0/phys_port_name"

FAULTS: list[tuple[str, Fault]] = [
    ("vfs-pf-enslaved", add_bond),
    ("vfs-eswitch-mode-wrong", change_host({REPRESENTOR: "pf0vf0"}, folders={f"{DEVICE}/net": ("rail1", "rail1_0")})),
    (
        "vfs-bus-numbers-exhausted",
        combine(NOT_HELD, remove_vfs("0"), change_host(outputs={("dmesg",): ProgramResult(0, NO_ROOM)})),
    ),
    ("vfs-removed-under-pods", remove_vfs("0")),
    ("vfs-removed-under-pods", combine(remove_vfs("0"), change_host(folders={"/run/netns": ()}))),
    ("vfs-count-change-busy", combine(NOT_HELD, remove_vf(1), change_host({f"{DEVICE}/sriov_numvfs": "1"}))),
    ("vfs-lost-after-reboot", combine(NOT_HELD, remove_vfs("0"), change_host({"/etc/trackbed/boot.sh": None}))),
    ("vfs-count-wrong", combine(NOT_HELD, remove_vfs("0"))),
    ("vfs-count-wrong", combine(NOT_HELD, remove_vf(1))),
    (
        "vfs-driver-missing",
        change_host(links={f"{locate_vf(1, 0)}/driver": None}, folders={f"{locate_vf(1, 0)}/net": None}),
    ),
    ("vfs-bound-to-vfio", change_host(links={f"{locate_vf(1, 0)}/driver": "../../../../bus/pci/drivers/vfio-pci"})),
    ("vfs-leaked-in-namespace", NOT_HELD),
    ("vfs-pf-down", change_port(flags=0, carrier=False)),
    ("vfs-link-state-disabled", change_vf(1, link_state="disable")),
    ("vfs-mac-zero", change_vf(0, mac="00:00:00:00:00:00")),
    ("vfs-admin-mac-not-effective", change_host({f"{locate_vf(1, 0)}/net/rail1v0/address": "02:aa:00:00:00:01"})),
    ("vfs-node-guid-zero", change_host({f"{locate_vf(1, 0)}/infiniband/mlx5_4/node_guid": "0000:0000:0000:0000"})),
    ("vfs-guid-duplicate", change_host({"/sys/class/infiniband/mlx5_0/node_guid": "b8ce:f603:0000:0001"})),
    ("vfs-mac-duplicate", change_vf(1, mac=get_mac(1, 0))),
    ("vfs-mtu-above-pf", change_host({f"{locate_vf(1, 0)}/net/rail1v0/mtu": "9216"})),
    ("vfs-mtu-not-planned", change_host({f"{locate_vf(1, 0)}/net/rail1v0/mtu": "1500"})),
    ("vfs-vlan-not-planned", change_vf(1, vlan=100)),
    ("vfs-spoofcheck-or-trust", change_vf(1, trust=True)),
    ("vfs-spoofcheck-or-trust", change_plan(vf_trust=True)),
    ("vfs-rate-limited", change_vf(1, max_tx_rate=10000)),
]


@pytest.fixture(autouse=True)
def limit_to_near_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_steps(monkeypatch)


def test_a_sound_host_has_no_finding_but_pass() -> None:
    findings = [finding for finding in check_vfs(build_view(NODE)) if finding.verdict != "pass"]
    assert findings == []
    assert diagnose_nodes([build_view(NODE)]).exit_status == 0


@pytest.mark.parametrize(("fault", "change"), FAULTS, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(FAULTS)])
def test_a_fault_is_named_first(fault: str, change: Fault) -> None:
    first = diagnose_nodes([change(build_view(NODE))]).first
    assert first is not None
    assert first.id == fault
    assert first.evidence


def test_every_fault_of_the_step_is_made_here() -> None:
    made = {fault for fault, _ in FAULTS} | {"vfs-too-many-on-infiniband"}
    assert made == {fault.id for fault in load_catalogue().values() if fault.step == "vfs"}


def test_more_than_sixteen_vfs_on_infiniband_are_too_many() -> None:
    change = combine(change_plan(link_type="infiniband", vfs=17), change_host({f"{DEVICE}/sriov_numvfs": "17"}))
    verdicts = {
        finding.rail: finding.verdict
        for finding in check_vfs(change(build_view(NODE)))
        if finding.id.endswith("infiniband")
    }
    assert verdicts == {0: "pass", 1: "warn"}


NO_RECORDS = change_host(folders={"/var/lib/cni/sriov/pci": None, "/run/netns": ()})


def ask_by_device(device: str) -> Fault:
    """Let the pod that has VF 1 of rail 1 have asked kubelet for a device."""
    entry = {"PodUID": POD, "DeviceIDs": {"0": [device]}}
    return change_host({CHECKPOINT: json.dumps({"Data": {"PodDeviceEntries": [entry]}})})


def attach_by_agent(view: NodeView) -> NodeView:
    """Let the agent have attached VF 1 of rail 1."""
    pod = PodView("pod-a", {1: PodInterface("net1", (), 1)}, view.state, {}, "it is no pod of this test")
    return replace(view, pods=(pod,), has_agent=True)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (combine(NO_RECORDS, ask_by_device("rail1-1")), "pass"),
        (combine(NO_RECORDS, ask_by_device("rail1-7")), "unknown"),
        (combine(NOT_HELD, NO_RECORDS), "unknown"),
        (combine(NOT_HELD, NO_RECORDS, attach_by_agent), "pass"),
        (combine(NOT_HELD, NO_RECORDS, lambda view: replace(view, has_agent=True)), "fail"),
        (NOT_HELD, "fail"),
    ],
    ids=["native", "native, another VF", "annotation or claim", "annotation", "nobody's by the agent", "nobody's"],
)
def test_a_vf_is_leaked_where_everybody_who_may_give_it_to_a_pod_is_known(change: Fault, verdict: str) -> None:
    findings = check_vfs(change(build_view(NODE)))
    assert [f.verdict for f in findings if f.id == "vfs-leaked-in-namespace" and f.rail == 1] == [verdict]


def test_infiniband_shows_no_macs_of_vfs() -> None:
    infiniband = combine(
        change_plan(link_type="infiniband", vf_spoof_check=True),
        change_vf(0, mac=IPOIB, spoof_check=False, trust=False),
        change_vf(1, mac=IPOIB, spoof_check=False, trust=False),
    )
    assert {f.id for f in check_vfs(infiniband(build_view(NODE))) if f.verdict != "pass"} == set()
    assert diagnose_nodes([infiniband(build_view(NODE))]).exit_status == 0


def test_a_guid_of_another_node_is_found() -> None:
    other = replace(build_view(PLAN.nodes[1]), host=build_view(NODE).host)
    first = diagnose_nodes([build_view(NODE), other]).first
    assert first is not None
    assert first.id == "vfs-guid-duplicate"
    assert [str(end) for end in first.ends] == ["n0", "n1"]


def test_a_mac_of_another_nodes_vf_is_found() -> None:
    other = build_view(PLAN.nodes[1])
    mine = build_view(NODE)
    twin = replace(other, vfs={**other.vfs, "rail1": mine.vfs["rail1"]})
    first = diagnose_nodes([mine, twin]).first
    assert first is not None
    assert (first.id, first.rail) == ("vfs-mac-duplicate", 1)


@pytest.mark.parametrize(
    ("fault", "change"),
    [
        (
            "vfs-leaked-in-namespace",
            change_host({CHECKPOINT: None}, folders={"/var/lib/cni/sriov/pci": (), "/run/netns": ()}),
        ),
        (
            "vfs-bus-numbers-exhausted",
            combine(remove_vfs("0"), change_host(outputs={("dmesg",): ProgramResult(1, "dmesg: not permitted")})),
        ),
    ],
    ids=["no-checkpoint", "no-dmesg"],
)
def test_what_nobody_can_read_is_unknown(fault: str, change: Fault) -> None:
    verdicts = {
        finding.verdict for finding in check_vfs(change(build_view(NODE))) if finding.id == fault and finding.rail == 1
    }
    assert verdicts == {"unknown"}


def test_a_driver_that_makes_its_own_mac_needs_none_given() -> None:
    igb = change_host(links={f"{locate_vf(1, 0)}/driver": "../../../../bus/pci/drivers/igbvf"})
    view = combine(igb, change_vf(0, mac="00:00:00:00:00:00"))(build_view(NODE))
    assert {finding.id for finding in check_vfs(view) if finding.verdict != "pass"} == set()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"Data":{"PodDeviceEntries":[1,{"PodUID":3,"DeviceIDs":"x"}]}}'])
def test_a_strange_checkpoint_is_no_crash(content: str) -> None:
    findings = list(check_vfs(change_host({CHECKPOINT: content})(build_view(NODE))))
    assert findings


def test_a_host_whose_ports_offer_no_vfs_is_the_firmwares_affair() -> None:
    gone: dict[str, str | None] = {f"/sys/class/net/rail{rail}/device/sriov_numvfs": None for rail in (0, 1)}
    ids = {finding.id for finding in check_vfs(change_host(gone)(build_view(NODE)))}
    assert not ids & {"vfs-count-wrong", "vfs-lost-after-reboot", "vfs-removed-under-pods"}


def test_who_is_named_holds_the_address_that_is_gone() -> None:
    first = diagnose_nodes([remove_vfs("0")(build_view(NODE))]).first
    assert first is not None
    assert (first.rail, get_vf_pci(1, 1) in first.evidence) == (1, True)
