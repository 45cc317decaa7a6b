"""Repairs of drift that do not last: after three within an hour another program contests the setting. Pure functions.

The repairs of the last hour are in the RailNode's status, so that a restarted agent knows them. A contested setting is
left alone until it has not differed for an hour, or an operator ends the contest.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from trackbed.cluster.api.times import format_time
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import CONTESTED, RETRY, Repair

MAX_REPAIRS = 3
"""Number of repairs of one setting within WINDOW after which it is no longer repaired."""
WINDOW = timedelta(hours=1)
_MAX_SETTINGS = 50
"""Maximum number of settings whose repairs are kept."""
_MAX_CHARACTERS = 1024

SettingKey = tuple[str, str]
"""A setting: its step, and its subject."""


def update_repairs(
    repairs: Sequence[Repair], differing: Collection[SettingKey], ended_at: str, now: datetime
) -> tuple[Repair, ...]:
    """Return the repairs after a comparison: those of the last hour, with the settings that are contested now.

    `differing` are the settings that differ. Repairs before `ended_at` (RFC 3339, may be empty) are forgotten.
    """
    start, now_text = max(format_time(now - WINDOW), ended_at), format_time(now)
    updated = []
    for repair in repairs:
        times = tuple(time for time in repair.times if time > start)
        is_latched = repair.contested and repair.differed > start
        differed = repair.differed
        if (repair.step, repair.subject) in differing:
            differed, is_latched = now_text, is_latched or len(times) >= MAX_REPAIRS
        if times or is_latched:
            updated.append(Repair(repair.step, repair.subject, times, differed, is_latched))
    return tuple(updated)


def add_repairs(repairs: Sequence[Repair], repaired: Collection[SettingKey], now: datetime) -> tuple[Repair, ...]:
    """Return the repairs with one more of each repaired setting; the newest _MAX_SETTINGS are kept."""
    present = {(repair.step, repair.subject): repair for repair in repairs}
    text = format_time(now)
    for step, subject in repaired:
        times = present[step, subject].times if (step, subject) in present else ()
        present.pop((step, subject), None)
        present[step, subject] = Repair(step, subject, (*times, text), text)
    return tuple(present.values())[-_MAX_SETTINGS:]


def list_contested(repairs: Sequence[Repair]) -> frozenset[SettingKey]:
    """Return the settings that are contested."""
    return frozenset((repair.step, repair.subject) for repair in repairs if repair.contested)


def build_contested_condition(
    node_name: str,
    repairs: Sequence[Repair],
    descriptions: Mapping[SettingKey, str],
    writers: Mapping[str, Sequence[str]],
) -> Condition | None:
    """Return condition Contested; None while no setting is contested.

    Args:
        node_name: name of the node.
        repairs: the repairs of the last hour.
        descriptions: the differences by setting.
        writers: by subject, the programs and files that may have set another value.
    """
    contested = [repair for repair in repairs if repair.contested]
    if not contested:
        return None
    first = contested[0]
    state = descriptions.get((first.step, first.subject), "")
    state = f"and differs again: {state}" if state else "and is as planned now; this ends after an hour without change"
    known = ", ".join(writers.get(first.subject, ())) or "unknown (a program, or a driver that refuses the value)"
    others = f"; {len(contested) - 1} more settings likewise" if len(contested) > 1 else ""
    message = (
        f"{first.step}: {first.subject} was repaired {MAX_REPAIRS} times within an hour {state};"
        f" set by: {known}{others}. Stop that, or plan its value; then"
        f" kubectl annotate railnode {node_name} {RETRY}="
    )
    return Condition(CONTESTED, "True", "SetByOthers", message[:_MAX_CHARACTERS])
