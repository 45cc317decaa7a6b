"""Each fault of the RDMA stack, put into a sound host, is what doctor names first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.doctor.host.changing import Fault, change_host, change_port, combine, limit_steps
from tests.doctor.host.sound_rdma import (
    CHECKPOINT,
    MODE,
    OPTION,
    build_view,
    compute_rdma_plan,
    format_gid,
    get_device,
    locate_port,
)
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

NODE = compute_rdma_plan().nodes[0]
check_rdma = partial(run_checks, steps=("rdma",))
NAME, PLACE, PORT = get_device(NODE, 1), locate_port(NODE, 1), NODE.ports[1]
DEVICE = "/sys/class/net/rail1/device"
CLASSES = ("net", "pci_bus")
MODULES = ("ib_core", "ib_uverbs", "mlx5_core", "rdma_ucm")
NODES = ("rdma_cm", "uverbs0", "umad0", "umad1")
DEVINFO = ("ibv_devinfo",)


def reduce_active_mtu(view: NodeView) -> NodeView:
    """Reduce the path MTU that the device reports below what the interface allows."""
    output = view.host.get_output(*DEVINFO) if view.host else None
    assert output is not None
    head, marked, tail = output.partition(f"hca_id:\t{NAME}")
    changed = head + marked + tail.replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)")
    return change_host(outputs={DEVINFO: ProgramResult(0, changed)})(view)


def change_gids(kind: str | None) -> Fault:
    """Give all GIDs of the port one kind; None leaves only the link-local GID."""
    files: dict[str, str | None] = {}
    for index in range(4):
        files[f"{PLACE}/gid_attrs/types/{index}"] = kind or "RoCE v2"
        if kind is None:
            files[f"{PLACE}/gids/{index}"] = "fe80:0000:0000:0000:bace:f6ff:fe00:0001"
    return change_host(files)


FAULTS: list[tuple[str, Fault]] = [
    ("rdma-stack-not-loaded", change_host(folders={"/sys/class": CLASSES})),
    ("rdma-stack-not-loaded", change_host(folders={"/sys/module": MODULES, f"{DEVICE}/infiniband": None})),
    ("rdma-netns-mode-change-busy", change_host({MODE: "Y"})),
    ("rdma-netns-mode-wrong", change_host({MODE: "Y"}, folders={"/run/netns": ("default",)})),
    ("rdma-netns-mode-not-persistent", change_host({OPTION: "# options ib_core netns_mode=0\n"})),
    ("rdma-netns-mode-not-persistent", change_host({"/etc/modprobe.d/z.conf": "options ib_core netns_mode=1\n"})),
    ("rdma-device-missing-for-port", change_host(folders={f"{DEVICE}/infiniband": None})),
    ("rdma-device-missing-for-port", change_host(folders={f"{DEVICE}/infiniband": (NAME, "mlx5_9")})),
    ("rdma-device-lost-in-namespace", change_host(folders={f"{DEVICE}/virtfn0/infiniband": ()})),
    ("rdma-uverbs-node-missing", change_host(folders={"/dev/infiniband": NODES})),
    ("rdma-uverbs-node-missing", change_host({"/sys/class/infiniband_verbs/uverbs1/ibdev": None})),
    ("rdma-ucm-node-missing", change_host(folders={"/dev/infiniband": ("uverbs0", "uverbs1", "umad0", "umad1")})),
    ("rdma-umad-node-missing", change_host(folders={"/dev/infiniband": ("rdma_cm", "uverbs0", "uverbs1", "umad0")})),
    ("rdma-port-down", change_host({f"{PLACE}/state": "1: DOWN", f"{PLACE}/phys_state": "3: Disabled"})),
    ("rdma-rate-below-plan", change_host({f"{PLACE}/rate": "200 Gb/sec (4X HDR)"})),
    ("rdma-rate-below-plan", change_host({f"{PLACE}/rate": "400 Gb/sec (2X XDR)"})),
    ("rdma-active-mtu-low", reduce_active_mtu),
    ("rdma-gid-without-address", change_gids(None)),
    ("rdma-gid-without-address", change_host({f"{PLACE}/gid_attrs/ndevs/{index}": "macvlan0" for index in range(4)})),
    ("rdma-gid-rocev1-only", change_gids("IB/RoCE v1")),
]


@pytest.fixture(autouse=True)
def limit_to_near_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_steps(monkeypatch)


def test_a_sound_host_has_no_finding_but_pass() -> None:
    findings = [finding for finding in check_rdma(build_view(NODE)) if finding.verdict != "pass"]
    assert findings == []
    assert diagnose_nodes([build_view(NODE)]).exit_status == 0


@pytest.mark.parametrize(("fault", "change"), FAULTS, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(FAULTS)])
def test_a_fault_is_named_first(fault: str, change: Fault) -> None:
    first = diagnose_nodes([change(build_view(NODE))]).first
    assert first is not None
    assert first.id == fault
    assert first.evidence


def test_every_fault_of_the_step_is_made_here() -> None:
    assert {fault for fault, _ in FAULTS} == {fault.id for fault in load_catalogue().values() if fault.step == "rdma"}


@pytest.mark.parametrize(
    ("cause", "change", "effect"),
    [
        ("addr-link-admin-down", change_port(flags=0, carrier=False), "rdma-port-down"),
        ("addr-mtu-wrong", change_port(mtu=1500), "rdma-active-mtu-low"),
    ],
)
def test_what_follows_from_the_interface_stands_behind_it(cause: str, change: Fault, effect: str) -> None:
    down = change_host({f"{PLACE}/state": "1: DOWN"} if effect == "rdma-port-down" else {}, outputs={DEVINFO: None})
    diagnosis = diagnose_nodes([combine(change, down)(build_view(NODE))])
    assert diagnosis.first is not None
    assert diagnosis.first.id == cause
    assert [
        finding.because for finding in diagnosis.findings if finding.id == effect and finding.verdict == "fail"
    ] == [cause]


def test_a_host_that_nobody_looked_at_leaves_nothing_to_say() -> None:
    assert list(check_rdma(replace(build_view(NODE), host=Snapshot()))) == []
    assert list(check_rdma(replace(build_view(NODE), host=None))) == []


def test_ports_without_rdma_hardware_need_no_device() -> None:
    """An igb port needs no RDMA device; soft-RoCE on it is optional."""
    bare = {f"/sys/class/net/rail{rail}/device/infiniband": None for rail in (0, 1)}
    igb = {f"/sys/class/net/rail{rail}/device/driver": "../../../../bus/pci/drivers/igb" for rail in (0, 1)}
    findings = list(check_rdma(change_host(links=igb, folders=bare)(build_view(NODE))))
    assert {finding.id for finding in findings if finding.verdict != "pass"} == set()
    assert "rdma-device-missing-for-port" not in {finding.id for finding in findings}


def add_soft_device(netdev: str) -> Fault:
    """Put soft-RoCE on one port in place of hardware (drivers/infiniband/sw/rxe: `parent` has the interface)."""
    virtual = "/sys/devices/virtual/infiniband"
    igb: dict[str, str | None] = {
        f"/sys/class/net/rail{rail}/device/driver": "../../../../bus/pci/drivers/igb" for rail in (0, 1)
    }
    folders: dict[str, tuple[str, ...] | None] = {
        **{f"/sys/class/net/rail{rail}/device/infiniband": None for rail in (0, 1)},
        virtual: ("rxe0",),
        "/dev/infiniband": ("rdma_cm", "uverbs0"),
    }
    files = {f"{virtual}/rxe0/parent": netdev, "/sys/class/infiniband_verbs/uverbs0/ibdev": "rxe0"}
    shown = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "2.5 Gb/sec (1X SDR)", "link_layer": "Ethernet"}
    files |= {f"{virtual}/rxe0/ports/1/{name}": text for name, text in shown.items()}
    for index, address in enumerate(PORT.addresses):
        here = f"{virtual}/rxe0/ports/1"
        files |= {f"{here}/gids/{index}": format_gid(address), f"{here}/gid_attrs/types/{index}": "RoCE v2"}
        files[f"{here}/gid_attrs/ndevs/{index}"] = netdev
    return change_host(files, links=igb, folders=folders, outputs={DEVINFO: None})


def test_soft_roce_on_one_port_only_is_missing_on_the_other() -> None:
    findings = [
        finding for finding in check_rdma(add_soft_device("rail1")(build_view(NODE))) if finding.verdict != "pass"
    ]
    assert [(finding.id, finding.rail) for finding in findings] == [("rdma-device-missing-for-port", 0)]


def test_who_holds_a_lost_device_is_unknown_without_kubelets_record() -> None:
    change = change_host({CHECKPOINT: None}, folders={f"{DEVICE}/virtfn0/infiniband": ()})
    verdicts = {
        finding.verdict
        for finding in check_rdma(change(build_view(NODE)))
        if finding.rail == 1 and "lost" in finding.id
    }
    assert verdicts == {"unknown"}


def test_the_kernels_own_argument_counts_as_an_option() -> None:
    change = change_host({OPTION: None, "/proc/cmdline": "quiet ib_core.netns_mode=0"})
    assert {finding.verdict for finding in check_rdma(change(build_view(NODE)))} == {"pass"}


def test_a_port_that_is_down_is_not_compared_with_the_others() -> None:
    down = change_host({f"{PLACE}/state": "1: DOWN", f"{PLACE}/rate": "10 Gb/sec (4X SDR)"})
    rails = [finding.rail for finding in check_rdma(down(build_view(NODE))) if finding.id == "rdma-rate-below-plan"]
    assert rails == [0]
