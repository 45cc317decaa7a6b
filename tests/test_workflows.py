"""What GitHub runs: workflows are well formed, name actions of others by commit, and take no right they do not need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
CHECKER = ROOT / "tools" / "actionlint"


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from its module by checksum."""
    program = tmp_path_factory.mktemp("actionlint") / "actionlint"
    package = "github.com/rhysd/actionlint/cmd/actionlint"
    variables = {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    argv = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(program), package]
    subprocess.run(argv, cwd=CHECKER, env={**os.environ, **variables}, check=True, timeout=300)
    return program


@pytest.mark.slow
@pytest.mark.needs("go")
def test_every_workflow_is_well_formed(actionlint: Path) -> None:
    path = f"{sys.prefix}/bin:{os.environ['PATH']}"  # where shellcheck is
    argv = [str(actionlint), "-no-color", *map(str, WORKFLOWS)]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.needs("processes")
def test_no_workflow_offers_an_attacker_anything() -> None:
    argv = [f"{sys.prefix}/bin/zizmor", "--offline", "--no-progress", "--quiet", "--color=never", ".github"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_of_others_is_named_by_its_commit_and_its_version(workflow: Path) -> None:
    uses = re.findall(r"uses: *(.*)", workflow.read_text())
    assert [line for line in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", line)] == []
