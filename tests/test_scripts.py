"""The scripts of a developer: how each says its use, and what `scripts/test` runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SCRIPTS = [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file() and not path.name.startswith("_")]

EXAMPLES = {
    "pure": "def test(): assert 1 + 1 == 2",
    "process": "import subprocess\ndef test(): subprocess.run(['true'], check=True)",
    "hidden": "import subprocess\ndef test():\n    try: subprocess.run(['true'])\n    finally: raise ValueError",
    "thread": "import os, threading\ndef test():\n    threading.Thread(target=os.fork).start()\n    assert False",
    "netlink": "import socket\ndef test(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "loopback": "import socket\ndef test(): socket.create_server(('127.0.0.1', 0)).close()",
    "needs": "import pytest\n@pytest.mark.needs('sh')\ndef test(): pass",
    "shared": (
        "import os, pytest\n@pytest.fixture(scope='module')\ndef child(): return os.fork()\n"
        "def test_first(child): pass\ndef test_second(child): pass"
    ),
}


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


@pytest.fixture(scope="module")
def pure_run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest prints of the examples above with --pure."""
    folder = tmp_path_factory.mktemp("pure")
    for name, source in EXAMPLES.items():
        (folder / f"test_{name}.py").write_text(f"{source}\n")
    options = ["-c", "/dev/null", "--rootdir", str(folder), "-p", "tests.conftest", "--pure", "-v"]
    command = [sys.executable, "-m", "pytest", *options, "--import-mode=importlib", str(folder)]
    environment = {**os.environ, "CI": "true"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@pytest.mark.parametrize("name", ["pure", "loopback"])
def test_what_needs_no_other_process_is_pure(pure_run: str, name: str) -> None:
    assert f"test_{name}.py::test PASSED" in pure_run


@pytest.mark.parametrize(
    "name",
    ["process::test", "hidden::test", "thread::test", "netlink::test", "shared::test_first", "shared::test_second"],
)
def test_what_starts_a_process_or_opens_netlink_is_not_pure(pure_run: str, name: str) -> None:
    assert f"test_{name.replace('::', '.py::')} NOT PURE" in pure_run


def test_what_needs_a_program_is_deselected_beforehand(pure_run: str) -> None:
    assert "2 passed, 1 deselected, 6 not pure" in pure_run
