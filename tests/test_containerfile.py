"""The image, as far as it can be told without building one: what it copies is there and lands where it is wanted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import SHIM

import trackbed
from tools import image_bases, locked_requirements
from trackbed.node.rails.install import BUILT_EXECUTABLE

ROOT = Path(__file__).parents[1]
PACKAGE = Path(trackbed.__file__).parent
TEXT = (ROOT / "Containerfile").read_text()
OURS = [words.split() for words in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE)]
"""What is copied from the checkout: names, then the place."""
[(_, PLACE)] = re.findall(r"^COPY --from=shim (\S+) (\S+)$", TEXT, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_everything_that_it_copies_is_there() -> None:
    assert [name for *names, _ in OURS for name in names if not (ROOT / name).exists()] == []


def test_the_executable_for_runtimes_is_put_where_the_agent_looks_for_it() -> None:
    assert ROOT / "src" / BUILT_EXECUTABLE.relative_to(PACKAGE.parent) == ROOT / PLACE


@pytest.mark.needs("processes")
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
        assert packed.read(str(BUILT_EXECUTABLE.relative_to(PACKAGE.parent))) == (source / PLACE).read_bytes()


def copied(here: Path, there: Path) -> None:
    """Copy a file or a folder, without what only this checkout has."""
    if here.is_dir():
        shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, there)


def test_every_base_is_named_by_its_digest() -> None:
    bases = {base.name for base in image_bases.parse_bases(TEXT)}
    stages = set(re.findall(r"^FROM .* AS (\w+)$", TEXT, re.MULTILINE))
    sources = {*re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE), *re.findall(r"--from=(\S+)", TEXT)}
    assert sources - stages == {f"${{{name}}}" for name in bases}
    assert bases == {"GO", "PYTHON"}


def test_a_label_says_what_it_was_built_on() -> None:
    [label] = re.findall(r"^LABEL (.*)$", TEXT, re.MULTILINE)
    assert label == "org.opencontainers.image.base.name=${PYTHON} dev.trackbed.bases=${BASES}"
    assert "\nARG BASES=pinned\n" in TEXT


def test_every_package_is_installed_by_its_hash_or_without_an_index() -> None:
    installs = re.findall(r"pip [^|;&]*?install (?:[^&]|&(?!&))*", TEXT.replace("\\\n", " "))
    assert len(installs) == 3
    assert [line for line in installs if "--require-hashes" not in line and "--no-index" not in line] == []


@pytest.mark.parametrize("names", [["uv", "hatchling"], ["aiohttp"]])
def test_requirements_come_from_the_lock_with_hashes(names: list[str]) -> None:
    lines = locked_requirements.read_requirements(ROOT / "uv.lock", names)
    locked = {package["name"]: package for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    assert set(names) < {line.partition("==")[0] for line in lines}
    for line in lines:
        package = locked[line.partition("==")[0]]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert line.startswith(f"{package['name']}=={package['version']} ")
        assert sorted(re.findall(r"--hash=(\S+)", line)) == sorted({file["hash"] for file in files})


def test_an_unlocked_package_is_refused() -> None:
    with pytest.raises(KeyError, match="no-such-package"):
        locked_requirements.read_requirements(ROOT / "uv.lock", ["no-such-package"])


@pytest.mark.needs("processes")
def test_wheel_and_sources_are_the_same_wherever_and_whenever_they_are_built(tmp_path: Path) -> None:
    first, second = (build_release(tmp_path / name, **values) for name, values in CIRCUMSTANCES.items())
    assert first.keys() == second.keys()
    assert len(first) == 2
    assert [name for name, content in first.items() if content != second[name]] == []


CIRCUMSTANCES: dict[str, dict[str, Any]] = {
    "a": {"umask": 0o022, "time": 1_000_000_000, "variables": {"TZ": "UTC", "LC_ALL": "C"}},
    "another folder/b": {"umask": 0o077, "time": 1_900_000_000, "variables": {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}},
}


def build_release(folder: Path, umask: int, time: int, variables: dict[str, str]) -> dict[str, bytes]:
    """Build wheel and source archive of a copy of this checkout, whose files have another time and other modes."""
    source = folder / "source"
    names = [
        *PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"],
        "/pyproject.toml",
        "/README.md",
        "/LICENSE",
    ]
    for name in names:
        copied(ROOT / name.lstrip("/"), source / name.lstrip("/"))
    for path in sorted(source.rglob("*"), reverse=time % 2 == 0):
        path.chmod(path.stat().st_mode & ~umask)
        os.utime(path, (time, time))
    argv = [
        f"{sys.prefix}/bin/hatchling",
        "build",
        "--target",
        "wheel",
        "--target",
        "sdist",
        "--directory",
        str(folder),
    ]
    environment = {**os.environ, **variables, "PYTHONHASHSEED": str(umask)}
    subprocess.run(argv, cwd=source, check=True, capture_output=True, timeout=300, umask=umask, env=environment)
    return {path.name: path.read_bytes() for path in folder.glob("*.*")}


@pytest.mark.needs("processes")
def test_the_executable_for_runtimes_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    digests = set()
    for name in ("a", "b"):
        copied(ROOT / "src/trackbed/node/cni/go", tmp_path / name)
        argv = [
            "go",
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            "-s -w",
            "-o",
            "trackbed",
            ".",
        ]
        variables = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
        subprocess.run(argv, cwd=tmp_path / name, env={**os.environ, **variables}, check=True, timeout=300)
        digests.add((tmp_path / name / "trackbed").read_bytes())
    assert len(digests) == 1


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
