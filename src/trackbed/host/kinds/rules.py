"""Kind rule: each rail's address leads to its table, and the fence stands before.

A rule is as planned if priority, selector and table are, whoever made it. Ours to remove: rules with Trackbed's
protocol number, and at a planned priority those that lead to the planned table or come from the planned address: what
an earlier plan, or a file of it after a reboot, left behind. All other rules are strangers' and stay.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import Range, text
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.fabric.plan.routes import Rule as Want
from trackbed.host.change import NOTHING, Change, stale, wanted
from trackbed.host.kinds.view import View
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.rules import FR_ACT_TO_TBL, PolicyRule, add_rule, delete_rule

if TYPE_CHECKING:
    from collections.abc import Iterator


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """The rule that is missing, or leads elsewhere."""
    planned = _planned(want)
    if any(_equal(have, planned) for have in view.state.rules):
        return None
    old = [have for have in view.state.rules if _succeeds(planned, have) and not _is_planned(have, view)]
    what = f"rule {want.priority} IPv{4 if planned.family == socket.AF_INET else 6}"
    do = (add_rule(planned), *(delete_rule(have) for have in old))
    return wanted(setting, what, ", ".join(map(_text, old)) or NOTHING, _text(planned), do)


def unplanned(view: View) -> Iterator[Change]:
    """Rules that are ours and planned no more, and second copies of planned ones."""
    every = [_planned(w) for s in view.settings if isinstance(w := s.want, Want)]
    missing = [planned for planned in every if not any(_equal(have, planned) for have in view.state.rules)]
    seen: list[PolicyRule] = []
    for have in view.state.rules:
        planned = next((p for p in every if _equal(have, p)), None)
        if planned is not None and planned not in seen:
            seen.append(planned)
            continue
        mine = planned is not None or have.protocol == PROTOCOL or any(_succeeds(p, have) for p in every)
        if mine and not any(_succeeds(p, have) for p in missing):
            what = "second copy of a rule" if planned else "old rule"
            yield stale("routing", None, f"{what} {have.priority}", _text(have), (delete_rule(have),))


def _planned(want: Want) -> PolicyRule:
    selector = want.source or want.unless_to
    if selector is None:
        raise ValueError(f"rule {want.priority} has no selector")
    family = FAMILY[selector.version]
    base, prefix = selector.base, selector.prefix
    if want.source:
        return PolicyRule(family, want.priority, want.table, src=base, src_prefix=prefix, protocol=PROTOCOL)
    return PolicyRule(family, want.priority, want.table, dst=base, dst_prefix=prefix, invert=True, protocol=PROTOCOL)


def _is_planned(have: PolicyRule, view: View) -> bool:
    return any(_equal(have, _planned(w)) for s in view.settings if isinstance(w := s.want, Want))


def _selector(rule: PolicyRule) -> tuple[object, ...]:
    return rule.src, rule.src_prefix, rule.dst, rule.dst_prefix, rule.invert, rule.iif, rule.oif, rule.fwmark


def _equal(have: PolicyRule, planned: PolicyRule) -> bool:
    same = (have.family, have.priority, have.table, have.action) == (planned.family, planned.priority, planned.table, 1)
    return same and _selector(have) == _selector(planned)


def _succeeds(planned: PolicyRule, have: PolicyRule) -> bool:
    """Whether `planned` takes the place of `have`: same priority, and the same table or the same selector."""
    same = (have.family, have.priority, have.action) == (planned.family, planned.priority, FR_ACT_TO_TBL)
    plain = not (have.iif or have.oif or have.fwmark) and have.invert == planned.invert
    return same and plain and (have.table == planned.table or _selector(have) == _selector(planned))


def _text(rule: PolicyRule) -> str:
    version = 4 if rule.family == socket.AF_INET else 6
    parts = ["not"] if rule.invert else []
    parts += [f"from {Range(version, rule.src, rule.src_prefix)}"] if rule.src_prefix else []
    parts += [f"to {text(version, rule.dst)}/{rule.dst_prefix}"] if rule.dst_prefix else []
    return " ".join([*parts, f"lookup {'main' if rule.table == MAIN_TABLE else rule.table}"])
