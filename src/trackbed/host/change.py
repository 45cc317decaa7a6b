"""The result of a comparison of a machine with the plan: changes to make, and skipped settings.

compare ──> Comparison ──> changes   Change: present value, wanted value, and the operations that make the change
                      └──> skipped   Skipped: the setting does not apply to this machine, and the reason
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Union

from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import Message


class SysctlWrite(NamedTuple):
    """Write `value` to `/proc/sys/<key>`."""

    key: str
    value: str


class FileWrite(NamedTuple):
    """Replace one of Trackbed's files; `content` None deletes it."""

    path: str
    content: str | None
    mode: int = 0o644


class AttributeWrite(NamedTuple):
    """Write `value` to a file of sysfs or configfs, after `intermediate_value` if the kernel requires one.

    `folder` is created if it does not exist; in configfs, the kernel then creates the files.
    """

    path: str
    value: str
    intermediate_value: str = ""
    folder: str = ""


class Rebind(NamedTuple):
    """Bind a PCI function's driver again and wait for its interface; `folder` is the function's in sysfs."""

    folder: str


class AwaitVfs(NamedTuple):
    """Wait until the VFs of a port have interfaces; `folder` is the port's device in sysfs."""

    folder: str


class Run(NamedTuple):
    """Run a program. Its `undo` command runs after the files are restored."""

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()


class RdmaSet(NamedTuple):
    """Send a message to the kernel's RDMA core (NETLINK_RDMA)."""

    message: Message


class DcbSet(NamedTuple):
    """Send messages of `netlink.dcb` one by one, and read each reply of the driver."""

    messages: tuple[Message, ...]


Operation = Union[Message, SysctlWrite, FileWrite, AttributeWrite, Rebind, AwaitVfs, Run, RdmaSet, DcbSet]

Action = Literal["add", "change", "remove"]


class Change(NamedTuple):
    """One difference between machine and plan. `setting` is None for leftovers of an earlier plan.

    `operations` is empty if Trackbed cannot make the change itself; `advice` then tells the user how to make it.
    Otherwise `advice` lists the programs that apply runs, and what the user must do afterwards.
    """

    setting: Setting | None
    step: str
    rail: int | None
    subject: str
    have: str
    want: str
    action: Action
    operations: tuple[Operation, ...]
    advice: str = ""
    reboot: bool = False
    """The change is prepared and takes effect at the next boot."""
    removed: int = 0
    """Number of addresses, routes, rules and VFs that are removed without a replacement."""
    needs_drain: bool = False
    """Whether the change takes devices or traffic from pods, needs a reboot, or can be made only without pods.

    `transaction.compare` sets it by the kind (`Kind.disrupts_pods`), or a kind where pods obstruct a change.
    """

    @property
    def is_repairable(self) -> bool:
        """Whether apply can make the change while pods use the rails."""
        return bool(self.operations) and not self.needs_drain


class Skipped(NamedTuple):
    """A setting that does not apply to this machine, and the reason."""

    setting: Setting
    subject: str
    reason: str


class Comparison(NamedTuple):
    """All changes of a machine in the order in which they must be made, and its skipped settings."""

    changes: tuple[Change, ...]
    skipped: tuple[Skipped, ...]


def to_document(comparison: Comparison) -> dict[str, object]:
    """Convert a comparison to a JSON document; its `reboot` is true if a change waits for the next boot."""
    changes = [
        {"step": c.step, "rail": c.rail, "what": c.subject, "have": c.have, "want": c.want, "action": c.action}
        | ({"advice": c.advice} if c.advice else {})
        | ({"reboot": True} if c.reboot else {})
        | ({"drain": True} if c.needs_drain else {})
        | ({"repairable": True} if c.is_repairable else {})
        for c in comparison.changes
    ]
    return {
        "reboot": any(change.reboot for change in comparison.changes),
        "totals": count_changes(comparison)._asdict(),
        "changes": changes,
        "skipped": [{"what": skip.subject, "reason": skip.reason} for skip in comparison.skipped],
    }


class Totals(NamedTuple):
    """Number of changes by action; `remove` counts removed entries, so a VF count that falls by 4 counts as 4."""

    add: int
    change: int
    remove: int

    def __str__(self) -> str:
        return f"{self.add} to add, {self.change} to change, {self.remove} to remove"


def count_changes(comparison: Comparison) -> Totals:
    """Return the number of changes of a comparison by action."""
    actions = [change.action for change in comparison.changes]
    losses = sum(change.removed or change.action == "remove" for change in comparison.changes)
    return Totals(actions.count("add"), actions.count("change"), losses)


ABSENT_VALUE = "-"
"""Stands for an absent value in `have` and `want`."""


def build_change(setting: Setting, subject: str, have: str, want: str, operations: tuple[Operation, ...]) -> Change:
    """Build a change that apply makes with `operations`."""
    action: Action = "add" if have == ABSENT_VALUE else "change"
    return Change(
        setting, setting.step, setting.rail, subject, have, want, action, operations, _format_runs(operations)
    )


def build_manual_change(setting: Setting, subject: str, have: str, want: str, advice: str) -> Change:
    """Build a change that only the user can make; `advice` says how."""
    return Change(setting, setting.step, setting.rail, subject, have, want, "change", (), advice)


def build_reboot_change(setting: Setting, subject: str, have: str, want: str, advice: str) -> Change:
    """Build a change that is prepared and takes effect at the next boot."""
    return Change(setting, setting.step, setting.rail, subject, have, want, "change", (), advice, reboot=True)


def build_removal(step: str, rail: int | None, subject: str, have: str, operations: tuple[Operation, ...]) -> Change:
    """Build the removal of a leftover of an earlier plan; `removed` counts the entries of the kernel's tables."""
    removed = sum(isinstance(operation, Message) for operation in operations)
    return Change(
        None, step, rail, subject, have, ABSENT_VALUE, "remove", operations, _format_runs(operations), removed=removed
    )


def _format_runs(do: tuple[Operation, ...]) -> str:
    """Return text that lists the programs that the operations run; empty if they run none."""
    programs = [" ".join(operation.argv) for operation in do if isinstance(operation, Run)]
    return f"apply runs: {'; '.join(programs)}" if programs else ""
