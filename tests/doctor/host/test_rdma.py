"""Each fault of the RDMA stack, put into a sound host, is what doctor names first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.doctor.host.changing import both, host, only_near_steps, port
from tests.doctor.host.sound_rdma import CHECKPOINT, MODE, OPTION, device, gid, place, rdma_plan, sound_view
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import rdma
from trackbed.doctor.diagnosis import diagnose
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.doctor.host.changing import Fault
    from trackbed.doctor.view import NodeView

NODE = rdma_plan().nodes[0]
NAME, PLACE, PORT = device(NODE, 1), place(NODE, 1), NODE.ports[1]
DEVICE = "/sys/class/net/rail1/device"
CLASSES = ("net", "pci_bus")
MODULES = ("ib_core", "ib_uverbs", "mlx5_core", "rdma_ucm")
NODES = ("rdma_cm", "uverbs0", "umad0", "umad1")
DEVINFO = ("ibv_devinfo",)


def _told(view: NodeView) -> NodeView:
    """The device says that it uses less than the interface has room for."""
    was = view.host.said(*DEVINFO) if view.host else None
    assert was is not None
    first, marked, rest = was.partition(f"hca_id:\t{NAME}")
    said = first + marked + rest.replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)")
    return host(outputs={DEVINFO: Ran(0, said)})(view)


def _gids(kind: str | None) -> Fault:
    """All GIDs of the port of one kind, or none at all but the link-local one."""
    files: dict[str, str | None] = {}
    for index in range(4):
        files[f"{PLACE}/gid_attrs/types/{index}"] = kind or "RoCE v2"
        if kind is None:
            files[f"{PLACE}/gids/{index}"] = "fe80:0000:0000:0000:bace:f6ff:fe00:0001"
    return host(files)


FAULTS: list[tuple[str, Fault]] = [
    ("rdma-stack-not-loaded", host(folders={"/sys/class": CLASSES})),
    ("rdma-stack-not-loaded", host(folders={"/sys/module": MODULES, f"{DEVICE}/infiniband": None})),
    ("rdma-netns-mode-change-busy", host({MODE: "Y"})),
    ("rdma-netns-mode-wrong", host({MODE: "Y"}, folders={"/run/netns": ("default",)})),
    ("rdma-netns-mode-not-persistent", host({OPTION: "# options ib_core netns_mode=0\n"})),
    ("rdma-netns-mode-not-persistent", host({"/etc/modprobe.d/z.conf": "options ib_core netns_mode=1\n"})),
    ("rdma-device-missing-for-port", host(folders={f"{DEVICE}/infiniband": None})),
    ("rdma-device-missing-for-port", host(folders={f"{DEVICE}/infiniband": (NAME, "mlx5_9")})),
    ("rdma-device-lost-in-namespace", host(folders={f"{DEVICE}/virtfn0/infiniband": ()})),
    ("rdma-uverbs-node-missing", host(folders={"/dev/infiniband": NODES})),
    ("rdma-uverbs-node-missing", host({"/sys/class/infiniband_verbs/uverbs1/ibdev": None})),
    ("rdma-ucm-node-missing", host(folders={"/dev/infiniband": ("uverbs0", "uverbs1", "umad0", "umad1")})),
    ("rdma-umad-node-missing", host(folders={"/dev/infiniband": ("rdma_cm", "uverbs0", "uverbs1", "umad0")})),
    ("rdma-port-down", host({f"{PLACE}/state": "1: DOWN", f"{PLACE}/phys_state": "3: Disabled"})),
    ("rdma-rate-below-plan", host({f"{PLACE}/rate": "200 Gb/sec (4X HDR)"})),
    ("rdma-rate-below-plan", host({f"{PLACE}/rate": "400 Gb/sec (2X XDR)"})),
    ("rdma-active-mtu-low", _told),
    ("rdma-gid-without-address", _gids(None)),
    ("rdma-gid-without-address", host({f"{PLACE}/gid_attrs/ndevs/{index}": "macvlan0" for index in range(4)})),
    ("rdma-gid-rocev1-only", _gids("IB/RoCE v1")),
]


@pytest.fixture(autouse=True)
def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    only_near_steps(monkeypatch)


def test_a_sound_host_has_no_finding_but_pass() -> None:
    found = [one for one in rdma.check(sound_view(NODE)) if one.verdict != "pass"]
    assert found == []
    assert diagnose([sound_view(NODE)]).status == 0


@pytest.mark.parametrize(("fault", "change"), FAULTS, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(FAULTS)])
def test_a_fault_is_named_first(fault: str, change: Fault) -> None:
    first = diagnose([change(sound_view(NODE))]).first
    assert first is not None
    assert first.id == fault
    assert first.evidence


def test_every_fault_of_the_step_is_made_here() -> None:
    assert {fault for fault, _ in FAULTS} == {fault.id for fault in load_catalogue().values() if fault.step == "rdma"}


@pytest.mark.parametrize(
    ("cause", "change", "effect"),
    [
        ("addr-link-admin-down", port(flags=0, carrier=False), "rdma-port-down"),
        ("addr-mtu-wrong", port(mtu=1500), "rdma-active-mtu-low"),
    ],
)
def test_what_follows_from_the_interface_stands_behind_it(cause: str, change: Fault, effect: str) -> None:
    down = host({f"{PLACE}/state": "1: DOWN"} if effect == "rdma-port-down" else {}, outputs={DEVINFO: None})
    found = diagnose([both(change, down)(sound_view(NODE))])
    assert found.first is not None
    assert found.first.id == cause
    assert [one.because for one in found.findings if one.id == effect and one.verdict == "fail"] == [cause]


def test_a_host_that_nobody_looked_at_leaves_nothing_to_say() -> None:
    assert list(rdma.check(replace(sound_view(NODE), host=Snapshot()))) == []
    assert list(rdma.check(replace(sound_view(NODE), host=None))) == []


def test_ports_without_rdma_hardware_need_no_device() -> None:
    """An igb port is as planned without; soft-RoCE may be put on it or not."""
    bare = {f"/sys/class/net/rail{rail}/device/infiniband": None for rail in (0, 1)}
    igb = {f"/sys/class/net/rail{rail}/device/driver": "../../../../bus/pci/drivers/igb" for rail in (0, 1)}
    found = list(rdma.check(host(links=igb, folders=bare)(sound_view(NODE))))
    assert {one.id for one in found if one.verdict != "pass"} == set()
    assert "rdma-device-missing-for-port" not in {one.id for one in found}


def _soft(netdev: str) -> Fault:
    """Soft-RoCE on one port in place of hardware (drivers/infiniband/sw/rxe: `parent` has the interface)."""
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
    for index, own in enumerate(PORT.addressed):
        here = f"{virtual}/rxe0/ports/1"
        files |= {f"{here}/gids/{index}": gid(own), f"{here}/gid_attrs/types/{index}": "RoCE v2"}
        files[f"{here}/gid_attrs/ndevs/{index}"] = netdev
    return host(files, links=igb, folders=folders, outputs={DEVINFO: None})


def test_soft_roce_on_one_port_only_is_missing_on_the_other() -> None:
    found = [one for one in rdma.check(_soft("rail1")(sound_view(NODE))) if one.verdict != "pass"]
    assert [(one.id, one.rail) for one in found] == [("rdma-device-missing-for-port", 0)]


def test_who_holds_a_lost_device_is_unknown_without_kubelets_record() -> None:
    change = host({CHECKPOINT: None}, folders={f"{DEVICE}/virtfn0/infiniband": ()})
    found = {one.verdict for one in rdma.check(change(sound_view(NODE))) if one.rail == 1 and "lost" in one.id}
    assert found == {"unknown"}


def test_the_kernels_own_argument_counts_as_an_option() -> None:
    change = host({OPTION: None, "/proc/cmdline": "quiet ib_core.netns_mode=0"})
    assert {one.verdict for one in rdma.check(change(sound_view(NODE)))} == {"pass"}


def test_a_port_that_is_down_is_not_compared_with_the_others() -> None:
    down = host({f"{PLACE}/state": "1: DOWN", f"{PLACE}/rate": "10 Gb/sec (4X SDR)"})
    found = [one.rail for one in rdma.check(down(sound_view(NODE))) if one.id == "rdma-rate-below-plan"]
    assert found == [0]
