"""What a comparison of a machine with the plan yields: changes to make, and what could not be judged.

compare ──> Comparison ──> changes   Change: have, want, and the operations that lead from one to the other
                      └──> skipped   Skipped: this machine has no such thing, so nothing is wrong and nothing is done
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trackbed.chain.setting import Setting
from trackbed.netlink.codec import Message


@dataclass(frozen=True, slots=True)
class SysctlWrite:
    """Write `value` to `/proc/sys/<key>`."""

    key: str
    value: str


Operation = Message | SysctlWrite

Action = Literal["add", "change", "remove"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `setting` is None for what is there and no longer planned.

    `do` is empty where Trackbed will not mend it; `advice` then says who can.
    """

    setting: Setting | None
    step: str
    rail: int | None
    what: str
    have: str
    want: str
    action: Action
    do: tuple[Operation, ...]
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A setting that has no meaning on this machine, and why."""

    setting: Setting
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that one look at a machine found, in the order in which it must be set."""

    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]


NOTHING = "-"
"""Stands for "not there" in `have` and `want`."""


def wanted(setting: Setting, what: str, have: str, want: str, do: tuple[Operation, ...]) -> Change:
    """The change that fulfils a setting."""
    return Change(setting, setting.step, setting.rail, what, have, want, "add" if have == NOTHING else "change", do)


def refused(setting: Setting, what: str, have: str, want: str, advice: str) -> Change:
    """A setting that only a person can fulfil."""
    return Change(setting, setting.step, setting.rail, what, have, want, "change", (), advice)


def stale(step: str, rail: int | None, what: str, have: str, do: tuple[Operation, ...]) -> Change:
    """The removal of something that is ours and no longer planned."""
    return Change(None, step, rail, what, have, NOTHING, "remove", do)
