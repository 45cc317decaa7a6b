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


class Part(msgspec.Struct, frozen=True):
    """One thing that emulated servers need."""

    name: str
    ok: bool
    seen: str
    todo: str = ""


def look(memory: int) -> list[Part]:
    """Every part; `memory` is what all servers together take, in MiB. Starts nothing but apt's own questions."""
    found = parts.cached()
    looked = [_machine(), _accelerator(found), _memory(memory), _cache(found)]
    return looked if found else [*looked, _tools(), _mirror(), _disk()]


def _machine() -> Part:
    kind = f"{sys.platform} {platform.machine()}"
    todo = "the parts are Debian packages for amd64: use such a machine"
    return Part("machine", kind == "linux x86_64", kind, todo)


def _accelerator(found: parts.Parts | None) -> Part:
    """Never wrong: emulation works everywhere, only slower."""
    known = accelerator.known(found) if found else None
    return Part("processor", ok=True, seen=known.why if known else accelerator.guess())


def _memory(wanted: int) -> Part:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) // 1024
    todo = f"up to {wanted} MiB will be used: fewer servers (--servers) or less memory (--memory)"
    return Part("memory", free >= wanted, f"{free} MiB available", todo)


def _cache(found: parts.Parts | None) -> Part:
    """Not there is no fault: `up` fetches them."""
    if found is None:
        return Part("parts", ok=True, seen=f"not in {parts.cache()} yet; `trackbed lab vm up` fetches them once")
    return Part("parts", ok=True, seen=f"QEMU {found.made.qemu}, Linux {found.made.kernel} in {found.folder}")


def _tools() -> Part:
    lacking = [*apt.missing(), *disk.missing()]
    return Part(
        "apt",
        not lacking,
        f"lacks {', '.join(lacking)}" if lacking else "there",
        "use a Debian machine with the package e2fsprogs",
    )


def _mirror() -> Part:
    try:
        uri = apt.mirror(apt.own_sources(), apt.codename())
    except apt.AptError as error:
        return Part("mirror", ok=False, seen=str(error), todo=f"{apt.MIRROR_VARIABLE}=URL of a mirror of Debian")
    return Part("mirror", ok=True, seen=uri)


def _disk() -> Part:
    place = parts.cache()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free >> 20
    ok = free >= _DISK_MIB and os.access(place, os.W_OK)
    return Part(
        "disk", ok, f"{free} MiB free below {place}", f"{_DISK_MIB} MiB that can be written: XDG_CACHE_HOME=DIR"
    )
