"""Kind rule: each rail's source address selects the rail's table; the fence rule precedes these rules.

A rule is as planned if it differs in nothing but its origin (`planned_entries`). Trackbed removes rules with its
protocol number, and at a planned priority rules with the planned table or the planned selector: an earlier plan, or its
file after a reboot, has added them. All other rules are kept.

The rule of a port that a pod has may be absent: systemd-networkd removes it with the port, and adds it again with it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import chain

from trackbed.fabric.model.ranges import V4, Range, format_address
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.fabric.plan.routes import PlannedRule as Want
from trackbed.host.change import ABSENT_VALUE, Change, build_change, build_removal
from trackbed.host.kinds import name
from trackbed.host.kinds.entries import KernelTable, restore_entries
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.planned_entries import list_rule_differences, to_rule
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Message
from trackbed.kernel.netlink.rules import (
    FR_ACT_TO_TBL,
    RTM_DELRULE,
    RTM_NEWRULE,
    PolicyRule,
    build_add_rule,
    build_delete_rule,
    identify_rule,
    list_rules,
)

_TABLE = KernelTable(
    "rules",
    list_rules,
    identify_rule,
    RTM_DELRULE,
    (lambda body: Message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body),),
)


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of a rule that is missing or differs; none while a pod has the rule's port."""
    planned = _to_rule(want)
    if any(_matches_plan(rule, planned) for rule in view.state.rules) or _is_port_in_pod(setting, view):
        return None
    every = [_to_rule(other) for other in view.list_wants(Want)]
    rivals = [rule for rule in view.state.rules if _replaces(planned, rule)]
    old = [rule for rule in rivals if not any(_matches_plan(rule, other) for other in every)]
    subject = f"rule {want.priority} IPv{4 if planned.family == socket.AF_INET else 6}"
    do = (build_add_rule(planned), *(build_delete_rule(rule) for rule in old))
    return build_change(
        setting,
        subject,
        ", ".join(_format_rival(rule, planned) for rule in old) or ABSENT_VALUE,
        _format_rule(planned),
        do,
    )


def _is_port_in_pod(setting: Setting, view: View) -> bool:
    wants = (other.want for other in view.settings if other.rail == setting.rail)
    return any(name.find_pod(view, want) for want in wants if isinstance(want, name.Want))


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of Trackbed's rules that are no longer planned, and of duplicates of planned rules."""
    every = [_to_rule(want) for want in view.list_wants(Want)]
    missing = [planned for planned in every if not any(_matches_plan(rule, planned) for rule in view.state.rules)]
    present: list[PolicyRule] = []
    for rule in view.state.rules:
        planned = next((other for other in every if _matches_plan(rule, other)), None)
        if planned is not None and planned not in present:
            present.append(planned)
            continue
        mine = planned is not None or rule.protocol == PROTOCOL or any(_replaces(other, rule) for other in every)
        if mine and not any(_replaces(other, rule) for other in missing):
            subject = "second copy of a rule" if planned else "old rule"
            yield build_removal(
                "routing", None, f"{subject} {rule.priority}", _format_rule(rule), (build_delete_rule(rule),)
            )


def find_other_sources(view: View) -> tuple[str, ...]:
    """Return the sources of rules in the places of the planned ones; nothing if one has a planned source.

    Such a machine carries another plan: that of another node, or one with other addresses.
    """
    planned = [rule for rule in map(_to_rule, view.list_wants(Want)) if rule.src_prefix]
    rivals = [rule for rule in view.state.rules if rule.src_prefix and any(_replaces(other, rule) for other in planned)]
    sources = {(rule.family, rule.src, rule.src_prefix) for rule in planned}
    if any((rule.family, rule.src, rule.src_prefix) in sources for rule in rivals):
        return ()
    return tuple(map(_format_source, rivals))


def count_entries(view: View) -> int:
    """Return the number of rules with a planned priority or with Trackbed's mark."""
    return sum(map(len, read_undo_data(view).values()))


def read_undo_data(view: View) -> UndoData:
    """Return the rules with a planned priority or with Trackbed's mark, by priority."""
    undo_data: dict[str, list[bytes]] = {str(want.priority): [] for want in view.list_wants(Want)}
    for rule in view.state.rules:
        if str(rule.priority) in undo_data or rule.protocol == PROTOCOL:
            undo_data.setdefault(str(rule.priority), []).append(rule.body)
    return undo_data


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the rules that `read_undo_data` returned; yield failures as text."""
    return restore_entries(machine, _TABLE, chain.from_iterable(undo_data.values()))


def _to_rule(want: Want) -> PolicyRule:
    return to_rule(want, PROTOCOL)


def _get_selector(rule: PolicyRule) -> tuple[object, ...]:
    return rule.src, rule.src_prefix, rule.dst, rule.dst_prefix, rule.invert, rule.iif, rule.oif, rule.fwmark


def _matches_plan(rule: PolicyRule, planned_rule: PolicyRule) -> bool:
    return rule.priority == planned_rule.priority and not list_rule_differences(rule, planned_rule)


def _replaces(planned_rule: PolicyRule, rule: PolicyRule) -> bool:
    """Return whether the planned rule replaces a rule: same priority, and the same table or the same selector."""
    is_same = (rule.family, rule.priority, rule.action) == (planned_rule.family, planned_rule.priority, FR_ACT_TO_TBL)
    plain = not (rule.iif or rule.oif or rule.fwmark) and rule.invert == planned_rule.invert
    return (
        is_same and plain and (rule.table == planned_rule.table or _get_selector(rule) == _get_selector(planned_rule))
    )


def _format_source(rule: PolicyRule) -> str:
    return str(Range(_get_family_version(rule), rule.src, rule.src_prefix))


def _get_family_version(rule: PolicyRule) -> int:
    return 4 if rule.family == socket.AF_INET else 6


def _format_rule(rule: PolicyRule) -> str:
    parts = ["not"] if rule.invert else []
    parts += [f"from {_format_source(rule)}"] if rule.src_prefix else []
    parts += [f"to {format_address(_get_family_version(rule), rule.dst)}/{rule.dst_prefix}"] if rule.dst_prefix else []
    return " ".join([*parts, f"lookup {'main' if rule.table == MAIN_TABLE else rule.table}"])


def _format_rival(rule: PolicyRule, planned: PolicyRule) -> str:
    """Return the text of a rule that a planned one replaces, with what differs if that does not show."""
    text = _format_rule(rule)
    return text if text != _format_rule(planned) else f"{text} ({'; '.join(list_rule_differences(rule, planned))})"


def get_version(want: Want) -> int:
    """Return the IP version of a rule."""
    selector = want.source or want.unless_to
    return selector.version if selector else V4


KIND = Kind(
    "rule",
    (Want,),
    compare,
    find_stale,
    read_undo_data,
    restore,
    undo_data_type=dict[str, tuple[bytes, ...]],
    count_entries=count_entries,
    disrupts_pods=keep_pods,
    describe=lambda want: f"rule {want.priority}",
    version=get_version,
    is_grouped=False,
)
