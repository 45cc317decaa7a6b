"""Comparing a machine with its settings: one look, then arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.chain.setting import STEPS, Address, Mtu, Name, RouteOn, Setting, Sysctl, Up
from trackbed.hosts import addresses, links, names, routes, rules, sysctls
from trackbed.hosts.change import Change, Comparison, Skipped
from trackbed.hosts.state import HostState, read
from trackbed.hosts.view import View, view
from trackbed.plan.routes import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.hosts.machine import Machine


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
    return Comparison(tuple(order), tuple(outcome for outcome in found if isinstance(outcome, Skipped)))


def _judged(setting: Setting, seen: View) -> Change | Skipped | None:
    lack = seen.lacks(setting)
    return Skipped(setting, describe(setting), lack) if lack else _compared(setting, seen)


def _compared(setting: Setting, seen: View) -> Change | Skipped | None:  # noqa: PLR0911 - one return for each kind
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


def _stale(seen: View) -> Iterator[Change]:
    """What an earlier plan left, in the steps that are asked about (all of them if ports are among the settings)."""
    steps = {setting.step for setting in seen.settings}
    if steps & {"names", "addresses"}:
        yield from addresses.unplanned(seen)
    if steps & {"names", "routing"}:
        yield from routes.unplanned(seen)
        yield from rules.unplanned(seen)


def describe(setting: Setting) -> str:  # noqa: PLR0911 - one return for each kind
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
