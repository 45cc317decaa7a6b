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
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("testdata"))
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
    sections = read_sections(patch).items()
    changed = {path: section for path, section in sections if not is_new(section) and "golden" not in Path(path).parts}
    marks = [line[:1] for section in changed.values() for line in section.partition("\n@@")[2].splitlines()]
    assert len(changed) == 1
    assert (marks.count("+"), marks.count("-")) == (1, 0)


@pytest.mark.needs("processes")
@pytest.mark.parametrize("patched", PATCHES, ids=lambda path: path.stem, indirect=True)
def test_the_new_test_and_those_of_changed_goldens_pass(patched: Path, request: pytest.FixtureRequest) -> None:
    paths = list(map(Path, read_sections(request.node.callspec.params["patched"])))
    new_tests = [path for path in paths if path.name.startswith("test_")]
    assert len(new_tests) == 1
    assert re.search(r"^\d+ passed in", run_tests(patched, new_tests), re.MULTILINE)
    rooms = {patched.joinpath(*path.parts[: path.parts.index("golden")]) for path in paths if "golden" in path.parts}
    if rooms:
        run_tests(patched, [test for room in rooms for test in room.glob("test_*.py")])


def run_tests(tree: Path, tests: list[Path]) -> str:
    """Run tests of the copy, which must not fail; return pytest's output."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}/src", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, tests)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout
