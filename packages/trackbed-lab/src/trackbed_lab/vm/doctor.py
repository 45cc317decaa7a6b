"""The requirements of emulated servers, checked on this machine, with the remedy for each that is not met."""

import os
import platform
import shutil
import sys
from pathlib import Path

import msgspec

from trackbed_lab.vm import accelerator, apt, disk, parts

_DISK_MIB = 1500
"""Space for the parts while they are fetched and unpacked."""


class Requirement(msgspec.Struct, frozen=True, rename={"evidence": "seen"}):
    """One requirement: whether it is met, what was found, and the remedy."""

    name: str
    ok: bool
    evidence: str
    todo: str = ""


def check_machine(memory: int) -> list[Requirement]:
    """Check every requirement; `memory` is that of all servers together, in MiB. Of apt, only queries are run."""
    fetched = parts.load_parts()
    requirements = [_check_platform(), _check_accelerator(fetched), _check_memory(memory), _check_parts(fetched)]
    return requirements if fetched else [*requirements, _check_tools(), _check_mirror(), _check_disk()]


def _check_platform() -> Requirement:
    machine = f"{sys.platform} {platform.machine()}"
    todo = "the parts are Debian packages for amd64: use such a machine"
    return Requirement("machine", machine == "linux x86_64", machine, todo)


def _check_accelerator(fetched: parts.Parts | None) -> Requirement:
    """Report the accelerator; always met, as emulation in software works everywhere."""
    result = accelerator.load_result(fetched) if fetched else None
    return Requirement("processor", ok=True, evidence=result.why if result else accelerator.describe_device())


def _check_memory(required: int) -> Requirement:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) // 1024
    todo = f"up to {required} MiB will be used: fewer servers (--servers) or less memory (--memory)"
    return Requirement("memory", available >= required, f"{available} MiB available", todo)


def _check_parts(fetched: parts.Parts | None) -> Requirement:
    """Report the parts; always met, as `up` fetches them."""
    if fetched is None:
        evidence = f"not in {parts.locate_cache()} yet; `trackbed lab vm up` fetches them once"
    else:
        evidence = f"QEMU {fetched.made.qemu}, Linux {fetched.made.kernel} in {fetched.folder}"
    return Requirement("parts", ok=True, evidence=evidence)


def _check_tools() -> Requirement:
    missing = [*apt.find_missing_tools(), *disk.find_missing_tools()]
    return Requirement(
        "apt",
        not missing,
        f"lacks {', '.join(missing)}" if missing else "there",
        "use a Debian machine with the package e2fsprogs",
    )


def _check_mirror() -> Requirement:
    try:
        uri = apt.choose_mirror(apt.read_sources(), apt.read_codename())
    except apt.AptError as error:
        return Requirement(
            "mirror", ok=False, evidence=str(error), todo=f"{apt.MIRROR_VARIABLE}=URL of a mirror of Debian"
        )
    return Requirement("mirror", ok=True, evidence=uri)


def _check_disk() -> Requirement:
    folder = parts.locate_cache()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free >> 20
    ok = free >= _DISK_MIB and os.access(folder, os.W_OK)
    todo = f"{_DISK_MIB} MiB that can be written: XDG_CACHE_HOME=DIR"
    return Requirement("disk", ok, f"{free} MiB free below {folder}", todo)
