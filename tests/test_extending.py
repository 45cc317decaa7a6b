"""Each patch of docs/extending adds one thing by files of its own and one line in one registry, and its test passes."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATCHES = sorted((ROOT / "docs" / "extending").glob("*.patch"))
_SECTION = re.compile(r"^diff --git a/\S+ b/(\S+)$(.*?)(?=^diff --git |\Z)", re.MULTILINE | re.DOTALL)


def read_sections(patch: Path) -> dict[str, str]:
    """Return what a patch does to each file, by path."""
    return {section[1]: section[2] for section in _SECTION.finditer(patch.read_text())}


def is_new(section: str) -> bool:
    """Return whether the file is created by the patch."""
    return "\nnew file mode " in section


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the sources and the tests."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("src", "tests", "tools"):
        # Dates are kept, so that the compiled files are used.
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("golden", "testdata"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def patched(tree: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield the copy with the patch applied; it is reversed afterwards."""
    command = ["git", "apply", "--whitespace=error", str(request.param)]
    subprocess.run(command, cwd=tree, check=True, timeout=20)
    yield tree
    subprocess.run([*command, "--reverse"], cwd=tree, check=True, timeout=20)


def test_there_is_an_example_of_each_thing_that_the_rooms_hold_many_of() -> None:
    things = {"check", "job-kind", "lint-rule", "setting-kind", "stack", "step", "switch-format"}
    assert {path.stem for path in PATCHES} == things


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_one_line_in_one_registry_is_all_that_changes(patch: Path) -> None:
    changed = {path: section for path, section in read_sections(patch).items() if not is_new(section)}
    marks = [line[:1] for section in changed.values() for line in section.partition("\n@@")[2].splitlines()]
    assert len(changed) == 1
    assert (marks.count("+"), marks.count("-")) == (1, 0)


@pytest.mark.parametrize("patched", PATCHES, ids=lambda path: path.stem, indirect=True)
def test_the_new_test_passes(patched: Path, request: pytest.FixtureRequest) -> None:
    patch: Path = request.node.callspec.params["patched"]
    tests = [path for path in read_sections(patch) if Path(path).name.startswith("test_")]
    environment = {**os.environ, "PYTHONPATH": f"{patched}/src", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, cwd=patched, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert len(tests) == 1
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout
