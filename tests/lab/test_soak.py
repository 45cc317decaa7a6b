"""The soak: what it counts as held twice, lost or left, and that a runtime which loses pods does not pass."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.crds import read_definitions
from trackbed_lab.kubernetes.programs import SHIM
from trackbed_lab.soak import faults
from trackbed_lab.soak.census import compare_contents
from trackbed_lab.soak.clock_library import locate_clock_library
from trackbed_lab.soak.daemons import Daemon
from trackbed_lab.soak.measure import UsageSample, compare_memory, read_usage
from trackbed_lab.soak.record import SoakRecord
from trackbed_lab.soak.run import SoakRun
from trackbed_lab.soak.site import Site, SoakPrograms

from tests.lab.sandboxes import in_sandbox

ROOT = Path(__file__).parents[2]
MINUTE = 60.0
SECONDS = 400.0
"""More than a site takes to start, to soak and to stop on a busy machine."""
RAIL0 = "rail0 veth 02:00:00:00:00:01 mtu 9000 up master -"


def test_an_address_that_two_pods_got_is_found() -> None:
    record = SoakRecord()
    record.hold_addresses("pod-1", "node-0", ["10.64.0.2/27", "10.65.0.2/27"])
    record.hold_addresses("pod-1", "node-0", ["10.64.0.2/27"])  # a repeated ADD
    record.release_addresses("pod-1")
    record.hold_addresses("pod-2", "node-0", ["10.64.0.2/27"])
    assert record.findings == []
    record.hold_addresses("pod-3", "node-0", ["10.64.0.2/27"])
    assert record.findings == ["10.64.0.2/27 was given to pod-3 while pod-2 held it"]


def test_findings_are_counted_but_not_kept_without_end() -> None:
    record = SoakRecord()
    for number in range(1000):
        record.report(f"finding {number}")
    assert record.counts["findings"] == 1000
    assert len(record.findings) == 50


def test_memory_is_compared_by_medians_of_the_second_and_the_last_sixth() -> None:
    def sample(minute: int) -> UsageSample:
        pss = 900 if minute < 10 else 100 + minute  # warm-up; one measurement is far off
        return UsageSample(minute * MINUTE, (9000 if minute == 55 else pss) * 1024, 0, 0, 0)

    samples = [sample(minute) for minute in range(60)]
    assert compare_memory(samples, 60 * MINUTE) == (114.5, 155.0)
    assert compare_memory(samples[:40], 60 * MINUTE) is None


def test_what_a_namespace_has_lost_or_has_left_over_is_found() -> None:
    before = {"node-0": {"link": Counter([RAIL0]), "route": Counter({"0/0": 2})}}
    after = {"node-0": {"link": Counter([RAIL0, "evil"]), "route": Counter(["0/0"])}}
    assert compare_contents(before, before) == []
    assert sorted(compare_contents(before, after)) == ["node-0 has link evil left over", "node-0 has lost route 0/0"]


def test_every_module_of_faults_has_its_line() -> None:
    folder = Path(faults.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "fault"}
    assert modules == set(faults.NAMES)
    assert len({fault.id for fault in faults.SITE_FAULTS} | {fault.id for fault in faults.POD_FAULTS}) == 10


@pytest.mark.needs("processes")
def test_the_clock_of_a_program_jumps_and_no_other_clock_does(tmp_path: Path) -> None:
    program = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
    daemon = Daemon("clock", [sys.executable, "-c", program], tmp_path, locate_clock_library(print), expendable=True)
    daemon.set_clock("+0")
    environment = daemon.build_environment()
    with subprocess.Popen(daemon.argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        times = []
        for offset in ("+0", "+1d", "+0", "-2h"):
            daemon.set_clock(offset)
            process.stdin.write(b"\n")
            process.stdin.flush()
            times.append([float(field) for field in process.stdout.readline().split()])
        assert read_usage(process.pid, 0).pss_kib > 1000
        process.stdin.close()
    days = [round((wall - monotonic - (times[0][0] - times[0][1])) / 3600) for wall, monotonic in times]
    assert days == [0, 24, 0, -2]


@pytest.mark.nightly("a soak")
@pytest.mark.needs("root")
def test_a_runtime_that_loses_pods_does_not_pass(tmp_path: Path, control_plane_programs: Path) -> None:
    """The executable answers every fourth DEL itself, so the agent never learns that those pods have ended."""
    real = build.build_programs(SHIM, print) / SHIM[0].name
    programs = SoakPrograms(
        control_plane_programs,
        real,
        locate_clock_library(print),
        read_definitions(ROOT / "charts/trackbed/files"),
    )
    files = tmp_path / "fs"
    files.mkdir()

    def soak() -> list[str]:
        site = Site(files, programs, SoakRecord())
        site.build()
        for node in site.nodes:
            executable = node.executable.rename(node.executable.with_name("real"))
            node.executable.write_text(
                f'#!/bin/sh\ncase "$CNI_COMMAND$CNI_CONTAINERID" in DEL[0-3]*) exit 0 ;; esac\nexec {executable}\n'
            )
            node.executable.chmod(0o755)
        return list(SoakRun(site, 8, seed=1).run(lambda *_: None).findings)

    findings = in_sandbox(files, soak, SECONDS)
    assert any("still has an attachment of soak/pod-" in finding for finding in findings), findings
