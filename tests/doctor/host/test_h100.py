"""A real server in operation: doctor finds nothing wrong with what lspci shows of it, and each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host import h100
from tests.host.h100 import Function
from tests.host.lspci import CAPTURES, parse_functions, read_capture
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import select_finding_to_fix, sort_findings
from trackbed.doctor.finding import Finding
from trackbed.doctor.host_reads import build_wanted
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.host.discover.crosscheck import crosscheck
from trackbed.host.discover.nearness import Proximity
from trackbed.host.discover.rails import choose_rails
from trackbed.host.discover.read import read_inventory
from trackbed.host.discover.wanted import WANTED
from trackbed.host.machine import Machine
from trackbed.host.snapshot.archive import unpack
from trackbed.host.snapshot.capture import capture
from trackbed.host.snapshot.take import read_snapshot
from trackbed.host.state import HostState

LSPCI = "h100-lspci-vvv.xz"
FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: h100, server: dell-xe9680-h100}]
  rails: 8
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/13}
"""
NODE = compute_plan(load_fabric(FABRIC, "fabric.yaml").fabric, {}).nodes[0]
WITHOUT_LOG = (
    *("bios-gpu-missing", "bios-above-4g-off"),
    *("fw-interface-revision-mismatch", "fw-health-compromised", "fw-command-timeout"),
)
"""What the kernel's log would tell, which lspci does not show."""
PER_RAIL = (
    *("bios-port-pci-absent", "bios-pcie-width-reduced", "bios-pcie-speed-reduced", "bios-numa-node-unknown"),
    *("bios-nic-not-beside-gpu", "bios-acs-redirect-on", "fw-max-read-request-small", "fw-relaxed-ordering-off"),
)


def list_findings(root: Path) -> list[Finding]:
    machine = Machine(root)
    view = NodeView(
        NODE, HostState(machine, (), (), (), (), ()), host=read_snapshot(machine, build_wanted(machine, NODE))
    )
    return list(run_checks(view, ("bios", "firmware")))


def assert_sound(root: Path) -> None:
    """Each check of each rail passes, and the rest cannot be known."""
    findings = list_findings(root)
    verdicts = Counter((finding.id, finding.verdict) for finding in findings)
    assert verdicts == {(id_, "pass"): 8 for id_ in PER_RAIL} | {(id_, "unknown"): 1 for id_ in WITHOUT_LOG}


def assert_rails(root: Path) -> None:
    """The rails are those of the catalogue, each beside its GPU; storage and onboard NICs are set aside."""
    inventory = read_inventory(read_snapshot(Machine(root), WANTED))
    selection = choose_rails(inventory)
    assert [(rail.nic.pci, rail.gpus, rail.proximity) for rail in selection.rails] == [
        (pci, (index,), Proximity.PIX) for index, pci in enumerate(h100.RAILS)
    ]
    assert {excluded.nic.pci: excluded.role.value for excluded in selection.excluded} == {
        **{f"0000:01:00.{port}": "management" for port in (0, 1)},
        **{f"0000:{bus}:00.{port}": "storage" for bus in ("1b", "9d") for port in (0, 1)},
    }
    assert crosscheck(inventory, selection) == ("dell-xe9680-h100", ())


def test_discover_finds_the_rails_of_the_catalogue(tmp_path: Path) -> None:
    assert_rails(h100.write_host(tmp_path, h100.list_functions()))


def test_doctor_finds_nothing_wrong(tmp_path: Path) -> None:
    assert_sound(h100.write_host(tmp_path, h100.list_functions()))


def test_an_archive_of_it_that_may_be_sent_is_as_sound(tmp_path: Path) -> None:
    machine = Machine(h100.write_host(tmp_path / "host", h100.list_functions()))
    with (tmp_path / "capture.tar.gz").open("xb") as stream:
        capture(machine, build_wanted(machine, NODE) | WANTED, stream, b"k" * 16)
    (tmp_path / "unpacked").mkdir()
    unpack(tmp_path / "capture.tar.gz", tmp_path / "unpacked")
    assert_rails(tmp_path / "unpacked")
    assert_sound(tmp_path / "unpacked")


def change(pci: str, **fields: int | bool | tuple[str, ...]) -> Callable[[Function], Function]:
    return lambda function: function._replace(**fields) if function.pci == pci else function  # type: ignore[arg-type] # fields of several types


FAULTS = {
    "ACS between NIC and GPU": (
        change("0000:39:02.0", acs=0x1D),
        "bios-acs-redirect-on",
        1,
        "0000:39:02.0 ACSCtl 0x001d",
    ),
    "ACS above the GPU only": (
        change("0000:c9:01.0", acs=0x04),
        "bios-acs-redirect-on",
        6,
        "0000:c9:01.0 ACSCtl 0x0004",
    ),
    "read requests of 512 bytes": (
        change("0000:5e:00.0", read_request=512),
        "fw-max-read-request-small",
        3,
        "MaxReadReq 512",
    ),
    "strict ordering": (change("0000:dc:00.0", relaxed=False), "fw-relaxed-ordering-off", 7, "RlxdOrd-"),
    "link at the speed of PCIe 4": (
        change("0000:1a:00.0", speed=4),
        "bios-pcie-speed-reduced",
        0,
        "16.0 GT/s PCIe of 32.0",
    ),
    "no NUMA node": (change("0000:9c:00.0", numa=-1), "bios-numa-node-unknown", 4, "numa_node is -1"),
}


@pytest.mark.parametrize(("alter", "fault", "rail", "evidence"), FAULTS.values(), ids=FAULTS)
def test_each_change_is_found_on_its_rail(
    tmp_path: Path, alter: Callable[[Function], Function], fault: str, rail: int, evidence: str
) -> None:
    findings = list_findings(h100.write_host(tmp_path, list(map(alter, h100.list_functions()))))
    first = select_finding_to_fix(sort_findings(findings))
    assert first is not None
    assert (first.id, first.rail) == (fault, rail)
    assert evidence in first.evidence


without_captures = pytest.mark.skipif(not (CAPTURES / LSPCI).exists(), reason="the captures are not here")
may_skip = pytest.mark.may_skip("the captures are other people's and not part of the project (TRACKBED_SHARED)")


@without_captures
@may_skip
def test_the_table_of_this_project_has_the_values_of_the_capture() -> None:
    real = parse_functions(read_capture(LSPCI))
    for ours in h100.list_functions():
        theirs = real[ours.pci][0]
        if ours.kind in {"0200", "0302"}:
            assert ours == theirs
        else:  # of bridges and disks, neither the label nor the model matters
            assert ours == theirs._replace(id=ours.id, label="", driver=ours.driver)


@without_captures
@may_skip
def test_the_whole_machine_of_the_capture_is_sound(tmp_path: Path) -> None:
    real = parse_functions(read_capture(LSPCI))
    functions = [function for function, _ in real.values()]
    root = h100.write_host(tmp_path, functions, configs={pci: config for pci, (_, config) in real.items()})
    assert_rails(root)
    assert_sound(root)
