"""The image, as far as it can be told without building one: what it copies is there and lands where it is wanted."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import SHIM

import trackbed
from trackbed.node.rails.install import BUILT

ROOT = Path(__file__).parents[1]
PACKAGE = Path(trackbed.__file__).parent
TEXT = (ROOT / "Containerfile").read_text()
OURS = [words.split() for words in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE)]
[(_, PLACE)] = re.findall(r"^COPY --from=shim (\S+) (\S+)$", TEXT, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_everything_that_it_copies_is_there() -> None:
    assert [name for *names, _ in OURS for name in names if not (ROOT / name).exists()] == []


def test_the_executable_for_runtimes_is_put_where_the_agent_looks_for_it() -> None:
    assert ROOT / "src" / BUILT.relative_to(PACKAGE.parent) == ROOT / PLACE


def test_the_wheel_that_it_builds_has_the_executable(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for *names, _ in OURS[1:]:  # the first one is of the stage that builds the executable
        for name in names:
            copied(ROOT / name, source / name)
    shutil.copy(build.build_programs(SHIM, print) / "trackbed", source / PLACE)
    argv = [f"{sys.prefix}/bin/hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as packed:
        assert packed.read(str(BUILT.relative_to(PACKAGE.parent))) == (source / PLACE).read_bytes()


def copied(here: Path, there: Path) -> None:
    """Copy a file or a folder, without what only this checkout has."""
    if here.is_dir():
        shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, there)


def test_its_languages_are_new_enough() -> None:
    [go] = re.findall(r"golang:([0-9.]+)", TEXT)
    [needed] = re.findall(r"^go ([0-9.]+)$", (ROOT / "src/trackbed/node/cni/go/go.mod").read_text(), re.MULTILINE)
    pythons = set(re.findall(r"python:([0-9.]+)", TEXT))
    assert numbers(go) >= numbers(needed)
    assert len(pythons) == 1
    assert numbers(*pythons) >= numbers(PROJECT["project"]["requires-python"].removeprefix(">="))


def numbers(version: str) -> tuple[int, ...]:
    """(3, 13) of 3.13."""
    return tuple(map(int, version.split(".")))


def test_it_runs_as_nobody_unless_told_otherwise() -> None:
    assert re.findall(r"^USER (.*)$", TEXT, re.MULTILINE) == ["65532:65532"]
    assert TEXT.rstrip().endswith('ENTRYPOINT ["trackbed"]')
