"""Kind kernel arguments: what the kernel was started with, and what the boot loader will pass next time.

now     next    outcome
has     has     as wanted
lacks   has     staged: only a reboot is missing
any     lacks   our file is written, the boot loader told; then staged
an argument of the owner says otherwise: nothing is done, and it is said where that argument stands
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, FileWrite, Operation, Skipped, advise, await_boot, fulfil, remove
from trackbed.host.kinds import bootloader
from trackbed.host.kinds.arguments import find_iommu_arguments, is_fulfilled, list_contradictions, remove_words, split
from trackbed.host.kinds.bootloader import Loader
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting

WHAT = "kernel arguments"


class Want(NamedTuple):
    """The kernel is started with these arguments, now and at the next boot.

    Each of `groups` is one argument (`iommu=pt`), or several that only together mean something
    (`hugepagesz=1G hugepages=16`). `iommu` requests the IOMMU in pass-through; which arguments do depends on the CPU.
    """

    groups: tuple[str, ...]
    iommu: bool = False

    def __str__(self) -> str:
        return WHAT


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of arguments that are missing, now or at the next boot."""
    machine = view.machine
    line = machine.read("/proc/cmdline")
    if machine.shared_reason or isinstance(line, Absent | Unreadable):
        return Skipped(setting, WHAT, machine.shared_reason or "/proc/cmdline cannot be read here")
    words = find_iommu_arguments(machine) if want.iommu else ()
    if words is None:
        return Skipped(setting, WHAT, "/proc/cpuinfo does not say whose CPU this is, and each has its own IOMMU switch")
    groups = (*words, *want.groups)
    loader = bootloader.find_loader(machine)
    if loader is None:
        lacking = _list_missing(groups, split(line))
        reason = f"no boot loader that Trackbed knows (GRUB, grubby, kernelstub); pass it by hand: {' '.join(lacking)}"
        return Skipped(setting, WHAT, reason) if lacking else None
    return _judge(setting, groups, loader, machine)


def _judge(setting: Setting, groups: tuple[str, ...], loader: Loader, machine: Machine) -> Change | None:
    now = split(str(machine.read("/proc/cmdline")))
    next_ = now if loader.staged is None else loader.staged
    theirs = remove_words(next_, loader.ours)
    wrong = tuple(dict.fromkeys(word for group in groups for word in list_contradictions(group, theirs)))
    if wrong and not loader.behind:
        return _advise_owner(setting, groups, wrong, bootloader.find_mentions(machine, loader, wrong[0]))
    ours = tuple(word for group in groups if not is_fulfilled(group, theirs) for word in group.split())
    lacking = _list_missing(groups, now), _list_missing(groups, next_)
    have, want = _describe_missing(*lacking), " ".join(groups)
    written = loader.ours == ours
    if not written or (loader.staged is not None and lacking[1]):
        return _stage(setting, loader, machine, (ours, have, want))
    if lacking[0]:
        advice = f"reboot this host; {loader.name} will pass {want} then"
        return await_boot(setting, WHAT, "set for the next boot, not yet now", want, advice)
    return None


def _stage(
    setting: Setting, loader: Loader, machine: Machine, texts: tuple[tuple[str, ...], str, str]
) -> Change | None:
    ours, have, want = texts
    do = _plan_operations(loader, machine, ours)
    if not loader.is_configured_by_files and _has_several_sizes(loader, ours):
        advice = f"{loader.name} cannot tell several hugepages= apart; put them into its configuration: {want}"
        return advise(setting, WHAT, have, want, advice)
    if not do:
        return advise(setting, WHAT, have, want, f"run on this host, then apply again: {loader.describe(ours)}")
    return fulfil(setting, WHAT, have, want, do)


def _has_several_sizes(loader: Loader, ours: tuple[str, ...]) -> bool:
    theirs = remove_words(loader.staged or (), loader.ours)
    counts = [word for word in (*theirs, *ours) if word.startswith("hugepages=")]
    return len(counts) > 1 and any(word in ours for word in counts)


def _plan_operations(loader: Loader, machine: Machine, ours: tuple[str, ...]) -> tuple[Operation, ...]:
    """Return the write of our file and the run of the loader's program; the write alone where that suffices."""
    runs = loader.build_runs(ours)
    able = all(machine.has_program(run.argv[0]) for run in runs)
    if not able and not loader.is_configured_by_files:
        return ()
    write = () if loader.ours == ours else (FileWrite(loader.file, loader.render(ours)),)
    return (*write, *runs) if able else write


def _advise_owner(setting: Setting, groups: tuple[str, ...], wrong: tuple[str, ...], where: str) -> Change:
    advice = f"{' '.join(wrong)} was set by the owner of this machine, in {where}; take it out there, then apply again"
    return advise(setting, WHAT, " ".join(wrong), " ".join(groups), advice)


def _list_missing(groups: tuple[str, ...], line: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(group for group in groups if not is_fulfilled(group, line))


def _describe_missing(now: tuple[str, ...], next_: tuple[str, ...]) -> str:
    if now == next_:
        return f"lacks {' '.join(now)}" if now else "other arguments of ours"
    parts = ((now, "now"), (next_, "at the next boot"))
    return ", ".join(f"lacks {' '.join(words)} {when}" for words, when in parts if words)


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of arguments of ours that are no longer planned."""
    machine = view.machine
    loader = None if machine.shared_reason or view.list_wants(Want) else bootloader.find_loader(machine)
    if loader and loader.ours:
        yield remove("cmdline", None, f"old {WHAT}", " ".join(loader.ours), _plan_operations(loader, machine, ()))


KIND = Kind("kernel_arguments", (Want,), compare, find_stale, is_for_boot=True)
