"""Comparison of a machine with its settings: the machine is read once, then only values are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.fabric.model.ranges import V4
from trackbed.host.change import Change, Comparison, FileWrite, Skipped
from trackbed.host.kinds import name
from trackbed.host.kinds.registry import KINDS, find_kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.state import read
from trackbed.host.steps import NAMES


def compare(machine: Machine, settings: Iterable[Setting]) -> Comparison:
    """Return how a machine differs from settings. Raises NetlinkError or OSError where it cannot be read."""
    return judge(observe(machine, settings))


def observe(machine: Machine, settings: Iterable[Setting]) -> View:
    """Read the state of a machine, to be compared with settings. Raises NetlinkError or OSError."""
    state, wanted = read(machine.freeze()), tuple(settings)
    return View(state, wanted, name.find_ports(state, wanted))


def judge(view: View) -> Comparison:
    """Return how a state differs from settings, in the order of the steps; in each step leftovers come first."""
    outcomes = [outcome for setting in view.settings if (outcome := _judge_setting(setting, view))]
    changes = [*_find_stale(view), *(outcome for outcome in outcomes if isinstance(outcome, Change))]
    changes.sort(key=lambda change: NAMES.index(change.step))
    return Comparison(tuple(changes), tuple(_group([skip for skip in outcomes if isinstance(skip, Skipped)])))


def _judge_setting(setting: Setting, view: View) -> Change | Skipped | None:
    kind = find_kind(setting.want)
    lack = _find_lack(setting, view) if kind.needs_port else ""
    return Skipped(setting, kind.describe(setting.want), lack) if lack else kind.compare(setting, setting.want, view)


def _find_lack(setting: Setting, view: View) -> str:
    """Return why a setting does not apply here; empty if it does."""
    netdev = setting.netdev
    if netdev and netdev not in view.ports:
        return f"there is no {netdev} yet"
    if netdev and view.find_stranger(netdev):
        return f"{netdev} is another interface"
    if find_kind(setting.want).version(setting.want) == V4 or view.has_ipv6(netdev):
        return ""
    return f"IPv6 is disabled {f'on {netdev}' if netdev else ''}"


def _group(skipped: list[Skipped]) -> Iterator[Skipped]:
    """Yield skipped settings of one step with one reason as one, in the place of the first."""
    groups: dict[object, list[Skipped]] = {}
    for skip in skipped:
        is_grouped = find_kind(skip.setting.want).is_grouped
        groups.setdefault((skip.setting.step, skip.reason) if is_grouped else id(skip), []).append(skip)
    for first, *others in groups.values():
        suffix = f" and {len(others)} more of step {first.setting.step}" if others else ""
        yield Skipped(first.setting, first.subject + suffix, first.reason)


def _find_stale(view: View) -> Iterator[Change]:
    """Yield leftovers of earlier plans in the steps of the settings (in all steps if these include ports)."""
    steps = {setting.step for setting in view.settings}
    stale = (change for kind in KINDS for change in kind.find_stale(view))
    return (change for change in stale if "names" in steps or change.step in steps)


def drop_files(comparison: Comparison) -> Comparison:
    """Return the comparison without what only the next boot would see: files of ours and kernel arguments."""
    kept = tuple(change for change in comparison.changes if not _is_for_boot(change))
    return Comparison(kept, comparison.skipped)


def _is_for_boot(change: Change) -> bool:
    is_kind = change.setting is not None and find_kind(change.setting.want).is_for_boot
    return is_kind or any(isinstance(operation, FileWrite) for operation in change.do)
