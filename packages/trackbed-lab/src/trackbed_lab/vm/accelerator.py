"""Whether KVM really runs a kernel here: found out by running one.

/dev/kvm is no proof. Where it is there but the processor's own virtualisation is not (a cloud instance with PVM, for
one), QEMU starts, and the kernel stops at the first instruction that KVM would have to emulate. So the kernel of the
parts is started once with nothing but its initramfs, which says a word and powers off. The answer is kept until the
machine boots again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from trackbed_lab.processes import start_process, stop_processes
from trackbed_lab.vm.parts import Parts

PROBE_SECONDS = 15.0
"""With KVM it takes about a second."""

_DEVICE = Path("/dev/kvm")
_WORD = "trackbed: probed"
_BROKEN = "KVM internal error"
_KERNEL_ARGUMENTS = "console=ttyS0 quiet panic=-1 trackbed.probe"


class ProbeResult(msgspec.Struct, frozen=True):
    """What came of the probe."""

    accelerator: str
    """kvm or tcg."""
    why: str
    boot: str
    """Which boot of this machine it holds for."""


def describe_device() -> str:
    """What can be said before there are parts to probe with."""
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return f"{_DEVICE} cannot be used: emulation in software, some ten times slower"
    return f"{_DEVICE} is there; `trackbed lab vm up` finds out whether it runs a kernel"


def load_result(parts: Parts) -> ProbeResult | None:
    """The answer of this boot of the machine, if it was asked."""
    try:
        found = msgspec.json.decode(_record(parts).read_bytes(), type=ProbeResult)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.boot == _boot() else None


def choose_accelerator(parts: Parts) -> ProbeResult:
    """KVM where it works, else TCG."""
    found = load_result(parts)
    if found is None:
        found = _probed(parts)
        _record(parts).write_bytes(msgspec.json.encode(found))
    return found


def _probed(parts: Parts) -> ProbeResult:
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return ProbeResult("tcg", f"TCG: {_DEVICE} is not there, or not for this user", _boot())
    said = _run(parts)
    if _WORD in said:
        return ProbeResult("kvm", "KVM: it ran a kernel", _boot())
    reason = next((line.strip() for line in said.splitlines() if _BROKEN in line), "it said nothing in time")
    return ProbeResult("tcg", f"TCG: {_DEVICE} is there but does not run a kernel ({reason})", _boot())


def _run(parts: Parts) -> str:
    """What a kernel says that is started with KVM, until it has said enough or too much time has gone by."""
    argv = [
        *("env", f"QEMU_MODULE_DIR={parts.qemu_modules}", *parts.build_qemu_command()),
        *("-M", "q35,kernel-irqchip=split", "-cpu", "host", "-accel", "kvm", "-m", "512"),
        *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(parts.vmlinuz), "-initrd", str(parts.initramfs), "-append", _KERNEL_ARGUMENTS),
    ]
    with TemporaryDirectory() as folder:
        probe = start_process("probe", argv, Path(folder), detached=False)
        deadline = time.monotonic() + PROBE_SECONDS
        said = ""
        while probe.is_alive and time.monotonic() < deadline and not any(word in said for word in (_WORD, _BROKEN)):
            time.sleep(0.1)
            said = Path(probe.log).read_text(errors="replace")
        stop_processes([probe])
        return Path(probe.log).read_text(errors="replace")


def _record(parts: Parts) -> Path:
    return parts.folder / "accelerator.json"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
