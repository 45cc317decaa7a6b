"""The choice between KVM and software emulation, made by booting a kernel under KVM once.

The existence of /dev/kvm proves nothing. Without hardware virtualisation behind it (a cloud instance with PVM, for
one) QEMU starts, and the kernel stops at the first instruction that KVM would have to emulate. The probe boots the
fetched kernel with only its initramfs, which prints a marker and powers off. The result is cached until this machine
reboots.
"""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from trackbed.host.boot_id import read_boot_id
from trackbed_lab.processes import start_process, stop_processes
from trackbed_lab.vm.parts import Parts

PROBE_SECONDS = 15.0
"""Limit for the probe, which takes about a second with KVM."""

_DEVICE = Path("/dev/kvm")
_MARKER = "trackbed: probed"
_KVM_FAILURE = "KVM internal error"
_KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 trackbed.probe"


class ProbeResult(msgspec.Struct, frozen=True):
    """The accelerator to use, and the reason."""

    accelerator: str
    """kvm or tcg."""
    why: str
    boot: str
    """Boot id of this machine for which the result is valid."""


def describe_device() -> str:
    """Return a message about KVM for a machine on which no kernel has been fetched to probe it with."""
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return f"{_DEVICE} cannot be used: emulation in software, some ten times slower"
    return f"{_DEVICE} is there; `trackbed lab vm up` finds out whether it runs a kernel"


def load_result(parts: Parts) -> ProbeResult | None:
    """Return the cached result, or None where the probe has not run since this machine booted."""
    try:
        result = msgspec.json.decode(_locate_result(parts).read_bytes(), type=ProbeResult)
    except (OSError, msgspec.DecodeError):
        return None
    return result if result.boot == read_boot_id() else None


def choose_accelerator(parts: Parts) -> ProbeResult:
    """Return KVM where it runs a kernel, else TCG; probe if there is no cached result."""
    result = load_result(parts)
    if result is None:
        result = _probe_kvm(parts)
        _locate_result(parts).write_bytes(msgspec.json.encode(result))
    return result


def _probe_kvm(parts: Parts) -> ProbeResult:
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return ProbeResult("tcg", f"TCG: {_DEVICE} is not there, or not for this user", read_boot_id())
    console = _boot_kernel(parts)
    if _MARKER in console:
        return ProbeResult("kvm", "KVM: it ran a kernel", read_boot_id())
    reason = next((line.strip() for line in console.splitlines() if _KVM_FAILURE in line), "no output in time")
    return ProbeResult("tcg", f"TCG: {_DEVICE} is there but does not run a kernel ({reason})", read_boot_id())


def _boot_kernel(parts: Parts) -> str:
    """Boot the kernel under KVM; return its console up to the marker, a KVM failure or the timeout."""
    argv = [
        *("env", f"QEMU_MODULE_DIR={parts.qemu_modules}", *parts.build_qemu_command()),
        *("-M", "q35,kernel-irqchip=split", "-cpu", "host", "-accel", "kvm", "-m", "512"),
        *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(parts.vmlinuz), "-initrd", str(parts.initramfs), "-append", _KERNEL_ARGUMENTS),
    ]
    with TemporaryDirectory() as folder:
        qemu = start_process("probe", argv, Path(folder), detached=False)
        deadline = time.monotonic() + PROBE_SECONDS
        console = ""
        while qemu.is_alive and time.monotonic() < deadline and _MARKER not in console and _KVM_FAILURE not in console:
            time.sleep(0.1)
            console = Path(qemu.log).read_text(errors="replace")
        stop_processes([qemu])
        return Path(qemu.log).read_text(errors="replace")


def _locate_result(parts: Parts) -> Path:
    return parts.folder / "accelerator.json"
