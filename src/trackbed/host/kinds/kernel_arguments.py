"""Kind kernel arguments: those of the running kernel, and those of the boot loader for the next boot.

now     next    outcome
has     has     no change
lacks   has     only a reboot is missing
any     lacks   the file of Trackbed is written and the boot loader's program is run; then only a reboot is missing

If the owner of the machine set a contradicting argument, nothing is changed; the advice names its file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import (
    Change,
    FileWrite,
    Operation,
    Skipped,
    build_change,
    build_manual_change,
    build_reboot_change,
    build_removal,
)
from trackbed.host.kinds import bootloader
from trackbed.host.kinds.arguments import (
    find_iommu_arguments,
    is_fulfilled,
    list_contradictions,
    remove_arguments,
    split_cmdline,
)
from trackbed.host.kinds.bootloader import Loader
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.other_bootloaders import find_other_loader
from trackbed.host.kinds.rdma_sharers import explain_sharing
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting

WHAT = "kernel arguments"

_RDMA_MODULE = re.compile(r"(ib|rdma|mlx[45]|bnxt|nvme)[_-](uverbs|umad|ipoib|cm|ucm|ib|re|rdma)\b|ib_core\b|irdma\b")


class Want(NamedTuple):
    """The kernel is started with these arguments, now and at the next boot.

    Each of `groups` is one argument (`iommu=pt`), or several that belong together (`hugepagesz=1G hugepages=16`).
    `iommu` requests IOMMU pass-through, whose arguments depend on the CPU.
    """

    groups: tuple[str, ...]
    iommu: bool = False

    def __str__(self) -> str:
        return WHAT


class EarlyWant(NamedTuple):
    """The kernel is started with `argument` if the initramfs loads RDMA drivers, before modprobe.d(5) can be read.

    modprobe reads options on the kernel's command line after those of modprobe.d, also in the initramfs, so they take
    effect (kmod_config_new in libkmod-config.c, kmod 30).
    """

    argument: str
    ends_sharing: bool = False
    """Whether it is left out while containers share RDMA devices of the host (`rdma_sharers`)."""
    always: bool = False
    """Whether it is needed whatever the initramfs loads."""

    def __str__(self) -> str:
        return WHAT


def compare(setting: Setting, want: Want | EarlyWant, view: View) -> Change | Skipped | None:
    """Return the change of arguments that are missing, now or at the next boot.

    Trackbed's arguments are written together: those of an EarlyWant with those of the Want, if there is one.
    """
    early = _list_early_arguments(view)
    if isinstance(want, EarlyWant):
        return None if view.list_wants(Want) or not early else _compare_groups(setting, Want(()), early, view.machine)
    return _compare_groups(setting, want, early, view.machine)


def _list_early_arguments(view: View) -> tuple[str, ...]:
    wants = view.list_wants(EarlyWant)
    if any(want.ends_sharing for want in wants) and explain_sharing(view.machine):
        wants = [want for want in wants if not want.ends_sharing]
    early = any(not want.always for want in wants) and _has_early_rdma(view.machine)
    return tuple(want.argument for want in wants if want.always or early)


def _has_early_rdma(machine: Machine) -> bool:
    """Return whether the initramfs loads RDMA drivers.

    dracut adds them where its module rdma finds an RDMA device (kernel-boot/dracut of rdma-core v50), initramfs-tools
    where the owner lists them (initramfs.conf(5), /etc/initramfs-tools/modules).
    """
    if any(machine.root.glob("usr/lib/dracut/modules.d/*rdma/module-setup.sh")):
        return True
    return any(_RDMA_MODULE.match(line) for line in machine.read_lines("/etc/initramfs-tools/modules"))


def _compare_groups(setting: Setting, want: Want, early: tuple[str, ...], machine: Machine) -> Change | Skipped | None:
    line = machine.read("/proc/cmdline")
    if machine.shared_reason or isinstance(line, (Absent, Unreadable)):
        return Skipped(setting, WHAT, machine.shared_reason or "/proc/cmdline cannot be read here")
    words = find_iommu_arguments(machine) if want.iommu else ()
    if words is None:
        return Skipped(setting, WHAT, "/proc/cpuinfo does not say whose CPU this is, and each has its own IOMMU switch")
    groups = (*words, *want.groups, *early)
    loader = bootloader.find_loader(machine)
    if loader is None:
        return _compare_other_loader(setting, groups, machine)
    return _compare_loader(setting, groups, loader, machine)


def _compare_other_loader(setting: Setting, groups: tuple[str, ...], machine: Machine) -> Change | None:
    """Return the change that the owner must make, where Trackbed does not configure the boot loader."""
    lacking = _list_missing(groups, split_cmdline(str(machine.read("/proc/cmdline"))))
    if not lacking:
        return None
    loader, want = find_other_loader(machine), " ".join(lacking)
    advice = f"this machine starts by {loader.name}, which Trackbed does not configure: {want}; {loader.advice}"
    return build_manual_change(setting, WHAT, _describe_missing(lacking, lacking), " ".join(groups), advice)


def _compare_loader(setting: Setting, groups: tuple[str, ...], loader: Loader, machine: Machine) -> Change | None:
    now = split_cmdline(str(machine.read("/proc/cmdline")))
    next_ = now if loader.staged is None else loader.staged
    theirs = remove_arguments(next_, loader.ours)
    wrong = tuple(dict.fromkeys(word for group in groups for word in list_contradictions(group, theirs)))
    if wrong and not loader.is_outdated:
        return _build_contradiction_change(
            setting, groups, wrong, bootloader.locate_argument(machine, loader, wrong[0])
        )
    ours = tuple(word for group in groups if not is_fulfilled(group, theirs) for word in group.split())
    lacking = _list_missing(groups, now), _list_missing(groups, next_)
    have, want = _describe_missing(*lacking), " ".join(groups)
    written = loader.ours == ours
    if not written or (loader.staged is not None and lacking[1]):
        do = _build_operations(loader, machine, ours)
        advice = _format_manual_advice(loader, ours, want) if not do or _explain_unwritable(loader, ours) else ""
        return (
            build_manual_change(setting, WHAT, have, want, advice)
            if advice
            else build_change(setting, WHAT, have, want, do)
        )
    if lacking[0]:
        advice = f"reboot this host; {loader.name} will pass {want} then"
        return build_reboot_change(setting, WHAT, "set for the next boot, not yet now", want, advice)
    return None


def _format_manual_advice(loader: Loader, arguments: tuple[str, ...], want: str) -> str:
    if reason := _explain_unwritable(loader, arguments):
        return f"{loader.name} {reason}; put them into its configuration: {want}"
    commands = "; ".join(" ".join(run.argv) for run in loader.build_runs(arguments))
    return f"run on this host, then apply again: {commands}"


def _explain_unwritable(loader: Loader, arguments: tuple[str, ...]) -> str:
    """Return why the boot loader's program must not write these arguments; empty if it may."""
    if _has_several_sizes(loader, arguments):
        return "cannot tell several hugepages= apart"
    is_command_end = loader.name == "grubby" and any(";" in word for word in arguments)
    return "writes ';' without the quotes that GRUB needs in an entry" if is_command_end else ""


def _has_several_sizes(loader: Loader, arguments: tuple[str, ...]) -> bool:
    """Return whether the boot loader's program would mix up counts of huge pages; files keep their order."""
    if loader.is_configured_by_files:
        return False
    theirs = remove_arguments(loader.staged or (), loader.ours)
    counts = [word for word in (*theirs, *arguments) if word.startswith("hugepages=")]
    return len(counts) > 1 and any(word in arguments for word in counts)


def _build_operations(loader: Loader, machine: Machine, arguments: tuple[str, ...]) -> tuple[Operation, ...]:
    """Return the write of Trackbed's file and the run of the boot loader's program; empty if that is missing.

    Without its program, a boot loader that is configured by files gets the file alone.
    """
    runs = loader.build_runs(arguments)
    able = all(machine.has_program(run.argv[0]) for run in runs)
    if not able and not loader.is_configured_by_files:
        return ()
    write = () if loader.ours == arguments else (FileWrite(loader.file, loader.render(arguments)),)
    return (*write, *runs) if able else write


def _build_contradiction_change(
    setting: Setting, groups: tuple[str, ...], contradictions: tuple[str, ...], where: str
) -> Change:
    have = " ".join(contradictions)
    advice = f"{have} was set by the owner of this machine, in {where}; take it out there, then apply again"
    return build_manual_change(setting, WHAT, have, " ".join(groups), advice)


def _list_missing(groups: tuple[str, ...], cmdline_words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(group for group in groups if not is_fulfilled(group, cmdline_words))


def _describe_missing(missing_now: tuple[str, ...], missing_next: tuple[str, ...]) -> str:
    if missing_now == missing_next:
        return f"lacks {' '.join(missing_now)}" if missing_now else "other arguments of ours"
    parts = ((missing_now, "now"), (missing_next, "at the next boot"))
    return ", ".join(f"lacks {' '.join(words)} {when}" for words, when in parts if words)


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of Trackbed's arguments if none are planned."""
    machine = view.machine
    is_planned = view.list_wants(Want) or _list_early_arguments(view)
    loader = None if machine.shared_reason or is_planned else bootloader.find_loader(machine)
    if loader and loader.ours:
        yield build_removal(
            "cmdline", None, f"old {WHAT}", " ".join(loader.ours), _build_operations(loader, machine, ())
        )


KIND: Kind[Want | EarlyWant] = Kind("kernel_arguments", (Want, EarlyWant), compare, find_stale, is_for_boot=True)
