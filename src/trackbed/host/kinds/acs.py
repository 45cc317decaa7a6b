"""Kind ACS: the PCIe bridges between a port and its GPUs send their traffic directly, not up to the CPU.

ACS control (PCI Express Base Specification, 7.7.11; PCI_ACS_CTRL in include/uapi/linux/pci_regs.h) has three bits that
redirect traffic between peers: request redirect, completion redirect and upstream forwarding. With an IOMMU the kernel
sets them on all bridges at boot (pci_std_enable_acs in drivers/pci/pci.c, Linux 6.12). setpci(8) clears only these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trackbed.host.change import Change, Run, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine, Unreadable
from trackbed.host.setting import Setting
from trackbed.host.snapshot import pci as registers

DEVICES = "/sys/bus/pci/devices"
GPU_CLASSES = ("0x10de:0x0302", "0x1002:0x1200", "0x1002:0x0380")
"""PCI vendor and class of GPUs: 3D controller, processing accelerator, other display controller."""
COMBINED_SWITCHES = ("0x15b3:0x1023",)
"""PCI vendor and device of ConnectX-8, which moves GPU data through a PCI function other than the port's."""
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Want(NamedTuple):
    """No bridge between port `netdev` (PCI address `pci`) and its GPUs, by number, redirects their traffic."""

    netdev: str
    pci: str
    gpus: tuple[int, ...]

    def __str__(self) -> str:
        return f"ACS between {self.netdev} and its GPUs"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of bridges that redirect."""
    machine, subject = view.machine, str(want)
    gpus = [] if machine.shared_reason else _list_gpus(machine)
    chosen = [gpus[number] for number in want.gpus if number < len(gpus)]
    port = _list_path(machine, want.pci)
    if machine.shared_reason or not chosen or not port or _read_ids(machine, want.pci, "device") in COMBINED_SWITCHES:
        return Skipped(setting, subject, machine.shared_reason or f"no GPU of {want.netdev} is behind a known bridge")
    between = set[str]().union(*(set(port) ^ set(_list_path(machine, gpu)) for gpu in chosen))
    configs = {bridge: machine.read_bytes(f"{DEVICES}/{bridge}/config") for bridge in sorted(between)}
    if any(isinstance(config, Unreadable) for config in configs.values()):
        return Skipped(setting, subject, "the configuration space of bridges can be read by root only")
    controls = {bridge: registers.read_acs(config) for bridge, config in configs.items() if isinstance(config, bytes)}
    wrong = {bridge: acs for bridge, acs in controls.items() if acs and acs & registers.ACS_REDIRECTS}
    return _build_change(setting, wrong, machine) if wrong else None


def _build_change(setting: Setting, controls: dict[str, int], machine: Machine) -> Change:
    have = " ".join(f"{bridge}={control:#06x}" for bridge, control in controls.items())
    runs = tuple(Run(_format_command(bridge, 0), _format_command(bridge, acs)) for bridge, acs in controls.items())
    want = "no redirects"
    if machine.has_program("setpci") and not _is_locked_down(machine):
        return build_change(setting, str(setting.want), have, want, runs)
    commands = "; ".join(" ".join(run.argv) for run in runs)
    bridges = ";".join(controls)
    advice = (
        f"install pciutils, then apply again (it runs {commands}); in lockdown (Secure Boot) only the kernel can: put "
        f"pci=disable_acs_redir={bridges} into kernel.arguments of the Fabric"
    )
    return build_manual_change(setting, str(setting.want), have, want, advice)


def _format_command(bridge: str, control: int) -> tuple[str, ...]:
    """Return the command that sets the redirecting bits of a bridge to those of `control`."""
    value = control & registers.ACS_REDIRECTS
    return ("setpci", "-s", bridge, f"ECAP_ACS+0x6.w={value:04x}:{registers.ACS_REDIRECTS:04x}")


def _is_locked_down(machine: Machine) -> bool:
    """Return whether the kernel lets no program write the configuration space (kernel_lockdown(7))."""
    state = "".join(machine.read_lines("/sys/kernel/security/lockdown"))
    return bool(state) and "[none]" not in state


def _list_gpus(machine: Machine) -> list[str]:
    """Return the PCI addresses of the GPUs in bus order, in which drivers number them."""
    functions = sorted(path.name for path in machine.root.glob(f"{DEVICES[1:]}/*"))
    return [pci for pci in functions if _read_ids(machine, pci, "class") in GPU_CLASSES]


def _read_ids(machine: Machine, pci: str, name: str) -> str:
    """Return a function's vendor, and its device or class without the programming interface."""
    values = ("".join(machine.read_lines(f"{DEVICES}/{pci}/{part}")) for part in ("vendor", name))
    return ":".join(value[:6] for value in values)


def _list_path(machine: Machine, pci: str) -> list[str]:
    """Return the PCI addresses of the bridges above a function; empty if it does not exist."""
    parts: Iterable[str] = machine.locate(f"{DEVICES}/{pci}").resolve().parts[:-1]
    return [part for part in parts if _FUNCTION.fullmatch(part)]


KIND = Kind("acs", (Want,), compare, needs_port=False)
