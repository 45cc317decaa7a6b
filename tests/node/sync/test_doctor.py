"""Doctor on a tree that plays the host: read by the program that a host runs, judged here."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.node.sync.test_preparer import node
from trackbed.host.machine import Machine
from trackbed.node.sync.doctor import examine_host
from trackbed.node.sync.host import NodeHost

pytestmark = pytest.mark.needs("processes")


def _host(tree: Path) -> NodeHost:
    return NodeHost(("env", f"TRACKBED_ROOT={tree}", f"PATH={os.environ['PATH']}"))


def test_what_the_host_shows_and_what_the_network_says_are_judged_together(tmp_path: Path) -> None:
    other = tmp_path / "sys/bus/pci/devices/0000:00:1f.0"
    other.mkdir(parents=True)
    (other / "vendor").write_text("0x8086\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet\n")
    diagnosis, excerpt = asyncio.run(examine_host(Machine(tmp_path), _host(tmp_path), tmp_path / "none.sock", node()))
    failed = {finding.id for finding in diagnosis.findings if finding.verdict == "fail"}
    assert {"bios-port-pci-absent", "names-netdev-missing"} <= failed
    assert not failed & {"addr-not-persisted"}, "what the agent's own comparison tells"
    assert (excerpt.node, excerpt.guids, excerpt.identity) == (node().name, (), None)


def test_a_host_that_does_not_answer_says_why(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program cannot be started: No such file or directory"):
        asyncio.run(examine_host(Machine(tmp_path), NodeHost(("no-such-program",)), tmp_path / "none.sock", node()))
