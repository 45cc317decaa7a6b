"""What a comparison of a machine with the plan yields: changes to make, and what could not be judged.

compare ──> Comparison ──> changes   Change: have, want, and the operations that lead from one to the other
                      └──> skipped   Skipped: this machine has no such thing, so nothing is wrong and nothing is done
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import Message


class SysctlWrite(NamedTuple):
    """Write `value` to `/proc/sys/<key>`."""

    key: str
    value: str


class FileWrite(NamedTuple):
    """Replace a whole file of ours; None deletes it."""

    path: str
    content: str | None
    mode: int = 0o644


class AttributeWrite(NamedTuple):
    """Write `value` to a file of sysfs or configfs, and `first` before it where the kernel needs an intermediate value.

    `folder` is created first if it does not exist: in configfs that makes an entry appear.
    """

    path: str
    value: str
    first: str = ""
    folder: str = ""


class Run(NamedTuple):
    """Run a program; `undo` reverts it and is run after files have been restored."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()


class RdmaSet(NamedTuple):
    """Send one message to the kernel's RDMA core (NETLINK_RDMA)."""

    message: Message


class DcbSet(NamedTuple):
    """Send messages of `netlink.dcb` one by one, and read the driver's reply to each."""

    messages: tuple[Message, ...]


Operation = Message | SysctlWrite | FileWrite | AttributeWrite | Run | RdmaSet | DcbSet

Action = Literal["add", "change", "remove"]


class Change(NamedTuple):
    """One difference. `setting` is None for leftovers of an earlier plan.

    `do` is empty where Trackbed cannot make the change; `advice` then tells the user how to. Otherwise `advice` lists
    the programs that apply runs and what the user must do afterwards.
    """

    setting: Setting | None
    step: str
    rail: int | None
    subject: str
    have: str
    want: str
    action: Action
    do: tuple[Operation, ...]
    advice: str = ""
    reboot: bool = False
    """The change is prepared and takes effect at the next boot."""


class Skipped(NamedTuple):
    """A setting that does not apply to this machine, and the reason."""

    setting: Setting
    subject: str
    reason: str


class Comparison(NamedTuple):
    """All differences between a machine and its settings, in the order in which they must be made."""

    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]


def to_document(comparison: Comparison) -> dict[str, object]:
    """Convert a comparison to a document for JSON; `reboot` is true if a change waits for the next boot."""
    changes = [
        {"step": c.step, "rail": c.rail, "what": c.subject, "have": c.have, "want": c.want, "action": c.action}
        | ({"advice": c.advice} if c.advice else {})
        | ({"reboot": True} if c.reboot else {})
        for c in comparison.changes
    ]
    return {
        "reboot": any(change.reboot for change in comparison.changes),
        "changes": changes,
        "skipped": [{"what": skip.subject, "reason": skip.reason} for skip in comparison.skipped],
    }


NOTHING = "-"
"""Stands for "absent" in `have` and `want`."""


def fulfil(setting: Setting, subject: str, have: str, want: str, do: tuple[Operation, ...]) -> Change:
    """Return the change that fulfils a setting."""
    action: Action = "add" if have == NOTHING else "change"
    return Change(setting, setting.step, setting.rail, subject, have, want, action, do, _list_runs(do))


def advise(setting: Setting, subject: str, have: str, want: str, advice: str) -> Change:
    """Return the change of a setting that only a person can fulfil."""
    return Change(setting, setting.step, setting.rail, subject, have, want, "change", (), advice)


def await_boot(setting: Setting, subject: str, have: str, want: str, advice: str) -> Change:
    """Return the change of a setting that is prepared and takes effect at the next boot."""
    return Change(setting, setting.step, setting.rail, subject, have, want, "change", (), advice, reboot=True)


def remove(step: str, rail: int | None, subject: str, have: str, do: tuple[Operation, ...]) -> Change:
    """Return the removal of a leftover of an earlier plan."""
    return Change(None, step, rail, subject, have, NOTHING, "remove", do, _list_runs(do))


def _list_runs(do: tuple[Operation, ...]) -> str:
    """List the programs that operations run, for people; empty if none."""
    programs = [" ".join(operation.argv) for operation in do if isinstance(operation, Run)]
    return f"apply runs: {'; '.join(programs)}" if programs else ""
