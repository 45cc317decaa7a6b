"""Doctor names each of 8 faults among the captures of a site, with its ends; the site is that of `scripts/bench`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import captures
from trackbed.cli.main import cli

SMALL = 76
"""PCI functions of a host with what is between NICs and GPUs only."""
LIMITED = """
import os, resource
from trackbed.cli.main import main
from trackbed.doctor import captured_site
def excerpt_captures(*arguments):
    resource.setrlimit(resource.RLIMIT_DATA, (166_000_000, 166_000_000))
    return excerpt(*arguments)
excerpt, captured_site.excerpt_captures = captured_site.excerpt_captures, excerpt_captures
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
main()
"""
"""The command and its two workers have 500 MB together; before, it reserves room for the largest plan."""


def list_broken(document: dict[str, list[dict[str, str]]]) -> list[str]:
    return sorted(finding["id"] for finding in document["findings"] if finding["verdict"] in {"fail", "warn"})


def test_each_fault_among_captures_is_named_once_with_its_ends(tmp_path: Path) -> None:
    fabric, archives, faults = captures.write_site(tmp_path, captures.MIN_HOSTS, SMALL)
    result = CliRunner().invoke(cli, ["doctor", "-f", str(fabric), *map(str, archives), "-o", "json"])
    document = json.loads(result.stdout)
    assert captures.find_unnamed(document, faults) == []
    assert list_broken(document) == sorted(fault.id for fault in faults if fault.id != "node-unread")
    assert result.exit_code == 1


def test_a_fault_that_is_named_without_one_of_its_ends_is_not_named() -> None:
    fault = captures.SiteFault("addr-duplicate-on-rail", (2, 5))
    ends = [{"node": "gpu0002"}, {"node": "gpu0005"}]
    document = {"findings": [{"id": fault.id, "ends": ends}]}
    assert captures.find_unnamed(document, [fault]) == []
    assert captures.find_unnamed({"findings": [{"id": fault.id, "ends": ends[:1]}]}, [fault]) == [fault]
    assert captures.find_unnamed({"findings": [{"id": "vfs-mac-duplicate", "ends": ends}]}, [fault]) == [fault]


@pytest.mark.needs("processes")
@pytest.mark.nightly("512 archives as large as those of real hosts take minutes to make")
def test_captures_of_512_hosts_are_judged_in_500_megabytes(tmp_path: Path) -> None:
    fabric, archives, faults = captures.write_site(tmp_path)
    argv = [sys.executable, "-c", LIMITED, "doctor", "-f", str(fabric), "-o", "json", *map(str, archives)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1000, check=False)
    assert done.returncode == 1, done.stderr
    assert captures.find_unnamed(json.loads(done.stdout), faults) == []
