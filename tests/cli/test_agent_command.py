"""`trackbed agent run`: what it refuses before it serves."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.host.steps.fabrics import FLAT, node_plan
from trackbed.cli.agent import command
from trackbed.fabric.plan.node_document import encode_node


@pytest.mark.parametrize("mode", ["move", "sriov"])
def test_a_kernel_that_cannot_keep_an_interfaces_index_is_refused(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vfs = "  vfs: {count: 4}\n" if mode == "sriov" else ""
    plan_file = tmp_path / "node.json"
    plan_file.write_bytes(encode_node(node_plan(FLAT, spec=f"  pods: {{mode: {mode}}}\n{vfs}")))
    kernel = os.uname_result(("Linux", "gpu-1", "5.10.0-32-amd64", "", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: kernel)
    run = CliRunner().invoke(command, ["run", "--plan", str(plan_file), "--socket", str(tmp_path / "agent.sock")])
    assert run.exit_code == 2
    assert f"this kernel is 5.10.0-32-amd64, and pods.mode {mode} needs Linux 5.13" in run.output
