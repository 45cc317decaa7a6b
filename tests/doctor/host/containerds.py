"""Real containerds for tests: Debian's package of 1.7, fetched and not installed; 2.x as the lab has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import NODE
from trackbed_lab.vm import apt

_PACKAGES = ("containerd", "libc6", "libseccomp2")


def find_containerd_1() -> list[str]:
    """Return the command of Debian 13's containerd 1.7, with its own loader; skips where it cannot be fetched."""
    cache = build.locate_cache().parent / "containerd-1.7"
    unpacked = cache / "unpacked"
    if not (unpacked / "complete").exists():
        try:
            _fetch(cache, unpacked)
        except (apt.AptError, OSError) as error:
            pytest.skip(f"no containerd 1.7 to fetch: {error}; let this machine's apt reach Debian's archive")
    libraries = unpacked / "usr/lib/x86_64-linux-gnu"
    loader = (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries))
    return [*loader, str(unpacked / "usr/bin/containerd")]


def find_containerd_2() -> list[str]:
    """Return the command of the lab's containerd, which is built if it is not cached; skips where it cannot be."""
    try:
        return [str(build.build_programs(NODE, print) / "containerd")]
    except build.BuildError as error:
        pytest.skip(str(error))


def _fetch(cache: Path, unpacked: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    mirror = apt.choose_mirror(apt.read_sources(), apt.read_codename())
    archive = apt.prepare_apt(cache, [apt.AptSource(mirror, "trixie")], fresh=True)
    archive.update()
    for package in archive.fetch_without_dependencies(_PACKAGES, cache / "packages"):
        apt.unpack(package, unpacked)
    (unpacked / "complete").touch()
