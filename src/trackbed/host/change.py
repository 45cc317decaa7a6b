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
    """Write `value` to a file of sysfs or configfs; `first` is written before it, where the kernel wants that.

    `folder` is made before, where it is not there: in configfs that is how something is shown.
    """

    path: str
    value: str
    first: str = ""
    folder: str = ""


class Run(NamedTuple):
    """Run a program; `back` is what undoes it, run after files have been put back."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()


class RdmaSet(NamedTuple):
    """Send one message to the kernel's RDMA core (NETLINK_RDMA)."""

    message: Message


class DcbSet(NamedTuple):
    """Send messages of `netlink.dcb` one by one, reading the driver's answer to each."""

    messages: tuple[Message, ...]


Operation = Message | SysctlWrite | FileWrite | AttributeWrite | Run | RdmaSet | DcbSet

Action = Literal["add", "change", "remove"]


class Change(NamedTuple):
    """One difference. `setting` is None for what is there and no longer planned.

    `do` is empty where Trackbed will not mend it; `advice` then says who can. Otherwise `advice` tells what besides a
    write will happen: the programs that are run, and what a person must do afterwards.
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
    """All is set for the next boot, and only that boot is missing."""


class Skipped(NamedTuple):
    """A setting that has no meaning on this machine, and why."""

    setting: Setting
    subject: str
    reason: str


class Comparison(NamedTuple):
    """Everything that one look at a machine found, in the order in which it must be set."""

    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]


def to_document(comparison: Comparison) -> dict[str, object]:
    """A comparison as a document for machines; `reboot` says that something waits for the next boot."""
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
"""Stands for "not there" in `have` and `want`."""


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
    """Return the removal of what is Trackbed's and no longer planned."""
    return Change(None, step, rail, subject, have, NOTHING, "remove", do, _list_runs(do))


def _list_runs(do: tuple[Operation, ...]) -> str:
    """List the programs that operations run, for people; empty if none."""
    programs = [" ".join(operation.argv) for operation in do if isinstance(operation, Run)]
    return f"apply runs: {'; '.join(programs)}" if programs else ""
