"""An emulated server that is still booting ends with the command that boots it, whatever ends the command."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from trackbed_lab.vm import keeper, lab
from trackbed_lab.vm.machine import LabShape

from tests.lab.sandboxes import all_ending
from tests.lab.servers import wanted

pytestmark = [
    pytest.mark.nightly("emulated servers take minutes"),
    pytest.mark.timeout(7000),
]

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: alone}
spec:
  nodes: [{hosts: node-0, ports: [{pci: "0000:11:00.0"}]}]
  rails: 1
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  vfs: {count: 1}
  otherRanges: {docker: []}
"""
UP = ("up", "--servers", "1", "--rail-count", "1")
RUN = ("run", "-f", "fabric.yaml")


@pytest.mark.parametrize(
    ("words", "number", "status"),
    [
        (UP, signal.SIGINT, 130),
        (UP, signal.SIGTERM, 143),
        (RUN, signal.SIGTERM, 143),
        (RUN, signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["up-INT", "up-TERM", "run-TERM", "run-KILL"],
)
def test_a_server_ends_with_its_command(
    tmp_path: Path, words: tuple[str, ...], number: signal.Signals, status: int
) -> None:
    wanted(LabShape(servers=1, rails=1, memory=1024))
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    folder = tmp_path / "vm"
    command = ["env", "--default-signal=INT", sys.executable, "-m", "trackbed", "lab", "vm", *words]
    command += ["--memory", "1024", "--dir", str(folder)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while not ((state := keeper.read_state(folder / "node-0")) and state.pid):
            assert process.poll() is None
        started = lab.load_lab(folder)
        assert started is not None
        processes = [started.switch.pid, started.servers[0].keeper.pid, state.pid]
        with all_ending(processes):
            process.send_signal(number)
    assert process.returncode == status
    assert (lab.load_lab(folder) is None) == (number != signal.SIGKILL)
    assert lab.stop_lab(folder) == 0
