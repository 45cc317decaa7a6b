"""Whether this machine can have emulated servers, part by part, and what to do about what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import msgspec

from trackbed_lab.vm import accelerator, apt, disk, parts

_DISK_MIB = 1500
"""Parts while they are fetched and unpacked."""

_WORDS = 3


class Requirement(msgspec.Struct, frozen=True):
    """One thing that emulated servers need."""

    name: str
    ok: bool
    seen: str
    todo: str = ""


def check_machine(memory: int) -> list[Requirement]:
    """Every part; `memory` is what all servers together take, in MiB. Starts nothing but apt's own questions."""
    found = parts.load_parts()
    looked = [_machine(), _accelerator(found), _memory(memory), _cache(found)]
    return looked if found else [*looked, _tools(), _mirror(), _disk()]


def _machine() -> Requirement:
    kind = f"{sys.platform} {platform.machine()}"
    todo = "the parts are Debian packages for amd64: use such a machine"
    return Requirement("machine", kind == "linux x86_64", kind, todo)


def _accelerator(found: parts.Parts | None) -> Requirement:
    """Never wrong: emulation works everywhere, only slower."""
    known = accelerator.load_result(found) if found else None
    return Requirement("processor", ok=True, seen=known.why if known else accelerator.describe_device())


def _memory(wanted: int) -> Requirement:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) // 1024
    todo = f"up to {wanted} MiB will be used: fewer servers (--servers) or less memory (--memory)"
    return Requirement("memory", free >= wanted, f"{free} MiB available", todo)


def _cache(found: parts.Parts | None) -> Requirement:
    """Not there is no fault: `up` fetches them."""
    if found is None:
        return Requirement(
            "parts", ok=True, seen=f"not in {parts.locate_cache()} yet; `trackbed lab vm up` fetches them once"
        )
    return Requirement("parts", ok=True, seen=f"QEMU {found.made.qemu}, Linux {found.made.kernel} in {found.folder}")


def _tools() -> Requirement:
    lacking = [*apt.find_missing_tools(), *disk.find_missing_tools()]
    return Requirement(
        "apt",
        not lacking,
        f"lacks {', '.join(lacking)}" if lacking else "there",
        "use a Debian machine with the package e2fsprogs",
    )


def _mirror() -> Requirement:
    try:
        uri = apt.choose_mirror(apt.read_sources(), apt.read_codename())
    except apt.AptError as error:
        return Requirement("mirror", ok=False, seen=str(error), todo=f"{apt.MIRROR_VARIABLE}=URL of a mirror of Debian")
    return Requirement("mirror", ok=True, seen=uri)


def _disk() -> Requirement:
    place = parts.locate_cache()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free >> 20
    ok = free >= _DISK_MIB and os.access(place, os.W_OK)
    return Requirement(
        "disk", ok, f"{free} MiB free below {place}", f"{_DISK_MIB} MiB that can be written: XDG_CACHE_HOME=DIR"
    )
