"""The scripts of a developer: how each says its use, and what `scripts/test` runs."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file() and not path.name.startswith("_")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_run_and_says_how(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[2].startswith(f"# Use: scripts/{script.name}")


def test_the_page_for_contributors_names_every_script() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [script.name for script in SCRIPTS if f"`scripts/{script.name}" not in page] == []


def test_the_hook_of_a_commit_is_a_script_of_this_repository() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repository["hooks"]
    assert repository["repo"] == "local"
    assert (ROOT / hook["entry"].partition(" ")[0]) in SCRIPTS


@pytest.mark.parametrize(
    ("arguments", "folder", "place"),
    [
        (["switches"], ".", "switches/test_leaf.py::"),
        (["tests/switches"], ".", "switches/test_leaf.py::"),
        (["host/kinds"], "src", "host/kinds/test_dcb.py::"),
        (["-k", "switches", "host/kinds/test_dcb.py"], ".", "no tests collected"),
        (["kinds"], "tests/host", "host/kinds/test_dcb.py::"),
        (["tests/host/kinds/test_dcb.py"], "docs", "host/kinds/test_dcb.py::"),
    ],
)
def test_a_room_is_a_folder_of_tests_from_anywhere(arguments: list[str], folder: str, place: str) -> None:
    command = [str(ROOT / "scripts" / "test"), "--collect-only", "-q", *arguments]
    done = subprocess.run(command, cwd=ROOT / folder, capture_output=True, text=True, timeout=60, check=False)
    assert place in done.stdout
