"""The shell completes files and names, from the Fabric that -f names; it never shows an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from trackbed.cli.main import cli

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-2]"}, {hosts: cpu-9}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/13}
"""

CASES = {
    "node of fabric.yaml": ("diff --node gpu-", ["gpu-0", "gpu-1", "gpu-2"]),
    "node of -f": ("diff -f other.yaml --node ", ["left-7"]),
    "nodes": ("plan --nodes a", ["all"]),
    "nodes over ssh": ("apply --nodes cpu", ["cpu-9"]),
    "nodes of render": ("render host --nodes cpu", ["cpu-9"]),
    "fault": ("faults route-rule-m", ["route-rule-missing"]),
    "lint rule": ("lint --explain hca-pre", ["hca-prefix"]),
    "server": ("servers dgx-h1", ["dgx-h100"]),
    "stack": ("stacks spiderp", ["spiderpool"]),
    "stack of render": ("render stack spiderp", ["spiderpool"]),
    "explained field": ("explain spec.addressing.sch", ["spec.addressing.scheme"]),
    "explained host": ("explain cpu", ["cpu-9"]),
    "broken in a lab": ("lab break route-rule-m", ["route-rule-missing"]),
    "broken on a server": ("lab vm break node-0 vfs-count-w", ["vfs-count-wrong"]),
    "help": ("help val", ["validate"]),
    "no such file": ("plan -f absent.yaml --nodes g", []),
    "file that is no Fabric": ("plan -f broken.yaml --nodes g", []),
    "ranges without end": ("plan -f endless.yaml --nodes g", []),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    (tmp_path / "other.yaml").write_text("spec: {nodes: [{hosts: 'left-[7]'}]}\n")
    (tmp_path / "broken.yaml").write_bytes(b"hosts: gpu-[0-\nhosts: \xff\n")
    (tmp_path / "endless.yaml").write_text("hosts: gpu-[0-9999999999]\n")
    return tmp_path


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("case", CASES)
def test_a_name_is_completed(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    line, names = CASES[case]
    *words, incomplete = line.split(" ")
    shell = BashComplete(cli, {}, "trackbed", "_TRACKBED_COMPLETE")
    assert [item.value for item in shell.get_completions(words, incomplete)] == names
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("line", ["plan -f sha", "job patch tr", "lint man", "stacks -f x", "validate -f x"])
def test_the_shell_completes_files(line: str) -> None:
    *words, incomplete = line.split(" ")
    shell = BashComplete(cli, {}, "trackbed", "_TRACKBED_COMPLETE")
    assert [(item.value, item.type) for item in shell.get_completions(words, incomplete)] == [(incomplete, "file")]


@pytest.mark.needs("processes")
def test_a_real_bash_completes_a_node(site: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = """
eval "$(_TRACKBED_COMPLETE=bash_source trackbed)"
COMP_WORDS=(trackbed plan -f fabric.yaml --nodes cp) COMP_CWORD=5
_trackbed_completion trackbed cp --nodes
echo "${COMPREPLY[@]}"
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], cwd=site, env={"PATH": path}, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("cpu-9\n", "")
