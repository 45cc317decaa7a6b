"""Comparison of a machine with its settings. The machine is read once, before the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trackbed.fabric.model.ranges import V4
from trackbed.host.change import Change, Comparison, FileWrite, Skipped
from trackbed.host.kinds import name
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.registry import KINDS, find_kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.state import read_host_state
from trackbed.host.steps import NAMES


def compare(machine: Machine, settings: Iterable[Setting]) -> Comparison:
    """Return how a machine differs from its settings. Raises NetlinkError or OSError if it cannot be read."""
    return compare_view(read_view(machine, settings))


def read_view(machine: Machine, settings: Iterable[Setting]) -> View:
    """Read the state of a machine for a comparison with its settings. Raises NetlinkError or OSError."""
    state, wanted = read_host_state(machine.freeze()), tuple(settings)
    return View(state, wanted, name.find_ports(state, wanted))


def compare_view(view: View) -> Comparison:
    """Return the changes and skipped settings in the order of steps; in each step leftovers come first."""
    outcomes = [outcome for setting in view.settings if (outcome := _compare_setting(setting, view))]
    changes = [*_find_leftovers(view), *(outcome for outcome in outcomes if isinstance(outcome, Change))]
    changes.sort(key=lambda change: NAMES.index(change.step))
    return Comparison(tuple(changes), tuple(_merge_skipped([skip for skip in outcomes if isinstance(skip, Skipped)])))


def _compare_setting(setting: Setting, view: View) -> Change | Skipped | None:
    kind = find_kind(setting.want)
    lack = _explain_skip(setting, view) if kind.needs_port else ""
    if lack:
        return Skipped(setting, kind.describe(setting.want), lack)
    outcome = kind.compare(setting, setting.want, view)
    return _mark_drain(outcome, kind) if isinstance(outcome, Change) else outcome


def _mark_drain(change: Change, kind: Kind[Any]) -> Change:
    """Return the change with the answer whether it needs a drained node."""
    disrupts = bool(change.operations) and kind.disrupts_pods(change)
    return change._replace(needs_drain=change.needs_drain or change.reboot or disrupts)


def _explain_skip(setting: Setting, view: View) -> str:
    """Return why a setting does not apply to the machine; empty if it does."""
    netdev = setting.netdev
    if netdev and netdev not in view.ports:
        pod = name.find_pod(view, name.Want(netdev))
        return f"pod {pod} has {netdev}" if pod else f"there is no {netdev} yet"
    if netdev and view.find_name_holder(netdev):
        return f"{netdev} is another interface"
    if find_kind(setting.want).version(setting.want) == V4 or view.has_ipv6(netdev):
        return ""
    return f"IPv6 is disabled {f'on {netdev}' if netdev else ''}"


def _merge_skipped(skipped: list[Skipped]) -> Iterator[Skipped]:
    """Merge the skipped settings of a step with the same reason into the first of them."""
    groups: dict[object, list[Skipped]] = {}
    for skip in skipped:
        is_grouped = find_kind(skip.setting.want).is_grouped
        groups.setdefault((skip.setting.step, skip.reason) if is_grouped else id(skip), []).append(skip)
    for first, *others in groups.values():
        suffix = f" and {len(others)} more of step {first.setting.step}" if others else ""
        yield Skipped(first.setting, first.subject + suffix, first.reason)


def _find_leftovers(view: View) -> Iterator[Change]:
    """Yield removals of leftovers in the steps of the settings (in all steps if the settings include ports)."""
    steps = {setting.step for setting in view.settings}
    stale = (_mark_drain(change, kind) for kind in KINDS for change in kind.find_stale(view))
    return (change for change in stale if "names" in steps or change.step in steps)


def exclude_boot_changes(comparison: Comparison) -> Comparison:
    """Return the comparison without changes for the next boot: files of Trackbed and kernel arguments."""
    kept = tuple(change for change in comparison.changes if not _is_for_boot(change))
    return Comparison(kept, comparison.skipped)


def _is_for_boot(change: Change) -> bool:
    is_kind = change.setting is not None and find_kind(change.setting.want).is_for_boot
    return is_kind or any(isinstance(operation, FileWrite) for operation in change.operations)
