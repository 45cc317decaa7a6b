"""Comparing a machine with its settings: one look, then arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.plan.routes import Rule
from trackbed.host.change import Change, Comparison, Skipped
from trackbed.host.kinds import (
    addresses,
    attributes,
    cmdline,
    dcb,
    firmware,
    kubelet,
    links,
    names,
    ownfiles,
    processes,
    rdma,
    routes,
    rules,
    sysctls,
    tos,
    vfs,
)
from trackbed.host.kinds.view import View, view
from trackbed.host.setting import (
    STEPS,
    Address,
    Attribute,
    CpuState,
    DcbDscp,
    DcbEts,
    DcbPfc,
    File,
    Firmware,
    HugePages,
    KernelArguments,
    KubeletReads,
    Memlock,
    Module,
    Mtu,
    Name,
    RdmaName,
    RdmaNamespaces,
    RdmaTos,
    RouteOn,
    Setting,
    Sysctl,
    Up,
    VfCount,
    VfGuard,
    VfMtu,
    VfProbe,
)
from trackbed.host.state import HostState, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.host.machine import Machine


def compare(machine: Machine, settings: Iterable[Setting]) -> Comparison:
    """How the machine differs from its settings; NetlinkError or OSError where it cannot be read."""
    return judge(read(machine), settings)


def judge(state: HostState, settings: Iterable[Setting]) -> Comparison:
    """How a state differs from settings: in the order of the steps, in each what is stale first."""
    seen = view(state, settings)
    found = [outcome for setting in seen.settings if (outcome := _judged(setting, seen))]
    changes = [outcome for outcome in found if isinstance(outcome, Change)]
    order = [*_stale(seen), *changes]
    order.sort(key=lambda change: STEPS.index(change.step))
    return Comparison(tuple(order), tuple(_together([one for one in found if isinstance(one, Skipped)])))


_ALONE = Name | Mtu | Up | Address | RouteOn | Rule | Sysctl
"""Kinds whose skipped settings are told one by one; of the others a host lacks all or none."""


def _together(skipped: list[Skipped]) -> Iterator[Skipped]:
    """Skipped settings of one step with one reason as one, in the place of the first."""
    groups: dict[object, list[Skipped]] = {}
    for one in skipped:
        key = id(one) if isinstance(one.setting.want, _ALONE) else (one.setting.step, one.reason)
        groups.setdefault(key, []).append(one)
    for same in groups.values():
        more = f" and {len(same) - 1} more of step {same[0].setting.step}" if len(same) > 1 else ""
        yield Skipped(same[0].setting, same[0].what + more, same[0].reason)


def _judged(setting: Setting, seen: View) -> Change | Skipped | None:
    lack = seen.lacks(setting)
    return Skipped(setting, describe(setting), lack) if lack else _compared(setting, seen)


def _compared(  # noqa: C901, PLR0911, PLR0912 - one return for each kind
    setting: Setting, seen: View
) -> Change | Skipped | None:
    match setting.want:
        case Name() as want:
            return names.compare(setting, want, seen)
        case Mtu() as want:
            return links.mtu(setting, want, seen)
        case Up() as want:
            return links.up(setting, want, seen)
        case Address() as want:
            return addresses.compare(setting, want, seen)
        case RouteOn() as want:
            return routes.compare(setting, want, seen)
        case Rule() as want:
            return rules.compare(setting, want, seen)
        case Sysctl() as want:
            return sysctls.compare(setting, want, seen)
        case KernelArguments() as want:
            return cmdline.compare(setting, want, seen)
        case HugePages() as want:
            return cmdline.pages(setting, want, seen)
        case File() as want:
            return ownfiles.compare(setting, want, seen)
        case RdmaNamespaces() as want:
            return rdma.namespaces(setting, want, seen)
        case RdmaName() as want:
            return rdma.name(setting, want, seen)
        case VfCount() as want:
            return attributes.count(setting, want, seen)
        case VfProbe() as want:
            return attributes.probe(setting, want, seen)
        case VfGuard() as want:
            return vfs.guard(setting, want, seen)
        case VfMtu() as want:
            return vfs.mtu(setting, want, seen)
        case DcbDscp() | DcbPfc() | DcbEts() as want:
            return dcb.compare(setting, want, seen)
        case RdmaTos() as want:
            return tos.compare(setting, want, seen)
        case Attribute() as want:
            return attributes.compare(setting, want, seen)
        case Memlock() as want:
            return processes.memlock(setting, want, seen)
        case CpuState() as want:
            return kubelet.state(setting, want, seen)
        case KubeletReads() as want:
            return kubelet.reads(setting, want, seen)
        case Firmware() as want:
            return firmware.compare(setting, want, seen)
        case Module() as want:
            return processes.module(setting, want, seen)


def _stale(seen: View) -> Iterator[Change]:
    """What an earlier plan left, in the steps that are asked about (all of them if ports are among the settings)."""
    steps = {setting.step for setting in seen.settings}
    if steps & {"names", "addresses"}:
        yield from addresses.unplanned(seen)
    if steps & {"names", "routing"}:
        yield from routes.unplanned(seen)
        yield from rules.unplanned(seen)
    asked = frozenset(STEPS) if "names" in steps else frozenset(steps)
    if "cmdline" in asked and not any(isinstance(setting.want, KernelArguments) for setting in seen.settings):
        yield from cmdline.unplanned(seen)
    if not seen.state.machine.shared:
        yield from ownfiles.unplanned(seen, asked)


def describe(setting: Setting) -> str:  # noqa: C901, PLR0911, PLR0912 - one return for each kind
    """A setting in a few words."""
    match setting.want:
        case Name(netdev):
            return f"name {netdev}"
        case Mtu(netdev):
            return f"MTU of {netdev}"
        case Up(netdev):
            return f"state of {netdev}"
        case Address(netdev, own):
            return f"address {own} of {netdev}"
        case RouteOn(netdev, route):
            return f"route to {route.to} in table {route.table} over {netdev}"
        case Rule() as rule:
            return f"rule {rule.priority}"
        case Sysctl(key):
            return key
        case KernelArguments():
            return cmdline.WHAT
        case HugePages(size_kib):
            return f"huge pages of {size_kib} KiB"
        case File(path):
            return f"file {path}"
        case RdmaNamespaces():
            return "RDMA namespace mode"
        case RdmaName(netdev):
            return f"RDMA device of {netdev}"
        case VfCount(netdev):
            return f"VFs of {netdev}"
        case VfProbe(netdev):
            return f"driver of new VFs of {netdev}"
        case VfGuard(netdev, vf):
            return f"VF {vf} of {netdev}"
        case VfMtu(netdev, _, vf):
            return f"MTU of VF {vf} of {netdev}"
        case DcbDscp() | DcbPfc() | DcbEts() as want:
            return dcb.described(want)
        case RdmaTos(netdev):
            return f"rdma_cm's traffic class of {netdev}"
        case Attribute(netdev, path):
            return path.format(netdev=netdev, rdma=netdev)
        case Memlock(process=process):
            return f"locked memory of {process}"
        case Module(name):
            return f"kernel module {name}"
        case CpuState():
            return "state of kubelet's CPU manager"
        case KubeletReads():
            return "kubelet's drop-ins"
        case Firmware(netdev):
            return f"firmware of {netdev}"
