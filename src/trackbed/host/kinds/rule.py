"""Kind rule: each rail's source address selects its table, and the fence rule precedes them.

A rule is as planned if priority, selector and table are, whoever made it. Ours to remove: rules with Trackbed's
protocol number, and at a planned priority those that lead to the planned table or come from the planned address: what
an earlier plan, or a file of it after a reboot, left behind. All other rules are strangers' and stay.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, Range, format_address
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.fabric.plan.routes import PlannedRule as Want
from trackbed.host.change import NOTHING, Change, fulfil, remove
from trackbed.host.kinds.entries import KernelTable, encode_body, restore_entries
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Message
from trackbed.kernel.netlink.rules import (
    FR_ACT_TO_TBL,
    RTM_DELRULE,
    RTM_NEWRULE,
    PolicyRule,
    add_rule,
    delete_rule,
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
    """Return the change of a rule that is missing or differs."""
    planned = _plan(want)
    if any(_is_equal(rule, planned) for rule in view.state.rules):
        return None
    every = [_plan(other) for other in view.list_wants(Want)]
    rivals = [rule for rule in view.state.rules if _succeeds(planned, rule)]
    old = [rule for rule in rivals if not any(_is_equal(rule, other) for other in every)]
    subject = f"rule {want.priority} IPv{4 if planned.family == socket.AF_INET else 6}"
    do = (add_rule(planned), *(delete_rule(rule) for rule in old))
    return fulfil(setting, subject, ", ".join(map(_to_text, old)) or NOTHING, _to_text(planned), do)


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of Trackbed's rules that are no longer planned, and of duplicates of planned rules."""
    every = [_plan(want) for want in view.list_wants(Want)]
    missing = [planned for planned in every if not any(_is_equal(rule, planned) for rule in view.state.rules)]
    present: list[PolicyRule] = []
    for rule in view.state.rules:
        planned = next((other for other in every if _is_equal(rule, other)), None)
        if planned is not None and planned not in present:
            present.append(planned)
            continue
        mine = planned is not None or rule.protocol == PROTOCOL or any(_succeeds(other, rule) for other in every)
        if mine and not any(_succeeds(other, rule) for other in missing):
            subject = "second copy of a rule" if planned else "old rule"
            yield remove("routing", None, f"{subject} {rule.priority}", _to_text(rule), (delete_rule(rule),))


def keep(view: View) -> Kept:
    """Return the rules of planned priorities, and all of Trackbed's."""
    priorities = {want.priority for want in view.list_wants(Want)}
    mine = [rule for rule in view.state.rules if rule.priority in priorities or rule.protocol == PROTOCOL]
    return {"rules": [encode_body(rule) for rule in mine]}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the rules."""
    return restore_entries(machine, _TABLE, kept["rules"])


def _plan(want: Want) -> PolicyRule:
    selector = want.source or want.unless_to
    if selector is None:
        raise ValueError(f"rule {want.priority} has no selector")
    family = FAMILY[selector.version]
    base, prefix = selector.base, selector.prefix
    if want.source:
        return PolicyRule(family, want.priority, want.table, src=base, src_prefix=prefix, protocol=PROTOCOL)
    return PolicyRule(family, want.priority, want.table, dst=base, dst_prefix=prefix, invert=True, protocol=PROTOCOL)


def _get_selector(rule: PolicyRule) -> tuple[object, ...]:
    return rule.src, rule.src_prefix, rule.dst, rule.dst_prefix, rule.invert, rule.iif, rule.oif, rule.fwmark


def _get_target(rule: PolicyRule) -> tuple[int, ...]:
    return rule.family, rule.priority, rule.table, rule.action


def _is_equal(have: PolicyRule, planned: PolicyRule) -> bool:
    return _get_target(have) == _get_target(planned) and _get_selector(have) == _get_selector(planned)


def _succeeds(planned: PolicyRule, have: PolicyRule) -> bool:
    """Return whether `planned` replaces `have`: same priority, and the same table or the same selector."""
    is_same = (have.family, have.priority, have.action) == (planned.family, planned.priority, FR_ACT_TO_TBL)
    plain = not (have.iif or have.oif or have.fwmark) and have.invert == planned.invert
    return is_same and plain and (have.table == planned.table or _get_selector(have) == _get_selector(planned))


def _to_text(rule: PolicyRule) -> str:
    version = 4 if rule.family == socket.AF_INET else 6
    parts = ["not"] if rule.invert else []
    parts += [f"from {Range(version, rule.src, rule.src_prefix)}"] if rule.src_prefix else []
    parts += [f"to {format_address(version, rule.dst)}/{rule.dst_prefix}"] if rule.dst_prefix else []
    return " ".join([*parts, f"lookup {'main' if rule.table == MAIN_TABLE else rule.table}"])


def read_version(want: Want) -> int:
    """Return the IP version of a rule."""
    selector = want.source or want.unless_to
    return selector.version if selector else V4


KIND = Kind(
    "rule",
    (Want,),
    compare,
    find_stale,
    keep,
    restore,
    describe=lambda want: f"rule {want.priority}",
    version=read_version,
    is_grouped=False,
)
