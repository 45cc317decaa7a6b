"""Making a machine as planned: all of it, or nothing.

    compare ── nothing to do ──> done
       │
    record on disk ──> change step by step ──> compare again ──> files ──> record finished ──> done
                            │ a failure                │ still different: once more, three rounds at most
                            └──> the record is put back, the error says what failed and why

Setting one thing can undo another (the kernel flushes routes when a port goes down to be renamed, or when an address
gets another prefix length), hence the rounds. A kill at any point leaves the record: the next apply goes on from where
things are, and undo leads back to before the first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import EBUSY, EEXIST
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from trackbed.host.change import NOTHING, Change, Comparison
from trackbed.host.kinds import name
from trackbed.host.kinds.links import GONE
from trackbed.host.kinds.registry import find_kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import NAMES
from trackbed.host.transaction import carriers
from trackbed.host.transaction import files as hostfiles
from trackbed.host.transaction import record as records
from trackbed.host.transaction.compare import drop_files, judge, observe
from trackbed.host.transaction.files import FileChange
from trackbed.host.transaction.perform import OperationError, perform
from trackbed.host.transaction.undo import restore
from trackbed.kernel.netlink.addresses import RTM_DELADDR, RTM_NEWADDR
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.routes import RTM_DELROUTE, RTM_NEWROUTE
from trackbed.kernel.netlink.rules import RTM_DELRULE, RTM_NEWRULE
from trackbed.kernel.netlink.sockets import BatchError, Failure

ROUNDS = 3
"""A rename that flushes routes takes two; what is not settled after three does not settle."""


class HostError(Exception):
    """Something went wrong on a machine; the message says what, why, and what to do."""


class ApplyError(HostError):
    """A setting could not be made; everything was put back, except for what the message names."""


class BusyError(HostError):
    """Another apply or undo is running on this machine."""


class NothingToUndoError(HostError):
    """There is no record of an apply."""


class Applied(NamedTuple):
    """The changes and files that were made, and the differences that only the user can resolve."""

    changes: tuple[Change, ...]
    files: tuple[FileChange, ...]
    left: Comparison


def apply(
    machine: Machine,
    settings: Sequence[Setting],
    folder: Path,
    files: Mapping[str, str] | None = None,
    *,
    until_reboot: bool = False,
) -> Applied:
    """Change the machine to its settings, and its network's files to `files` (None: leave the files alone).

    `folder` keeps the record for `undo`. `until_reboot`: no file is written, so the next boot reverts the changes.
    Raises ApplyError after everything was restored, BusyError while another apply is running.
    """
    with _hold_lock(folder):
        applied = _apply(machine, folder, files, _Look(machine, tuple(settings), until_reboot))
        names = frozenset(setting.netdev for setting in settings if isinstance(setting.want, name.Want))
        carriers.save(machine, names, folder)
        return applied


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Allow one apply or undo at a time on a machine; the kernel releases the lock when the process ends."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(
                f"another trackbed apply is under way here ({folder / 'lock'} is held); wait for it"
            ) from error
        yield


class _Look(NamedTuple):
    """A machine and its settings; `until_reboot` excludes settings that take effect only at a boot."""

    machine: Machine
    settings: tuple[Setting, ...]
    until_reboot: bool

    def judge(self, view: View) -> Comparison:
        """Return how a state differs from its settings."""
        return drop_files(judge(view)) if self.until_reboot else judge(view)

    def repeat(self, before: Comparison) -> Comparison:
        """Read and compare the machine again.

        Keep the earlier results of settings that take seconds to read and that apply never modifies.
        """
        changes = [change for change in before.changes if change.setting and _is_read_once(change.setting)]
        skipped = [skip for skip in before.skipped if _is_read_once(skip.setting)]
        settings = [setting for setting in self.settings if not _is_read_once(setting)]
        now = self.judge(observe(self.machine, settings))
        changes = sorted([*changes, *now.changes], key=lambda change: NAMES.index(change.step))
        return Comparison(tuple(changes), (*skipped, *now.skipped))


def _is_read_once(setting: Setting) -> bool:
    return find_kind(setting.want).is_read_once


def _apply(machine: Machine, folder: Path, files: Mapping[str, str] | None, look: _Look) -> Applied:
    view = observe(machine, look.settings)
    comparison = look.judge(view)
    rewritten = hostfiles.list_differences(machine, files) if files is not None else ()
    if not rewritten and not any(change.do for change in comparison.changes):
        _finish(folder)
        return Applied((), (), comparison)
    record = _begin(machine, records.build_record(view, rewritten, comparison.changes), folder)
    try:
        done, left = _apply_rounds(look, comparison)
        for change in rewritten:
            _rewrite(machine, change)
    except (Exception, KeyboardInterrupt) as error:  # whatever it was, the machine must not stay half done
        wrong = restore(machine, record)
        records.drop(folder)
        if not isinstance(error, OperationError | NetlinkError | OSError):
            raise
        raise ApplyError(_to_message(error, wrong)) from error
    _finish(folder)
    return Applied(done, rewritten, left)


def undo(machine: Machine, folder: Path) -> tuple[str, ...]:
    """Restore the machine to its state before the last apply; return what could not be restored.

    Raises NothingToUndoError where no apply has been recorded.
    """
    with _hold_lock(folder):
        record = records.load(folder)
        if record is None:
            raise NothingToUndoError(f"there is nothing to undo: {folder / records.FILE} is not there")
        wrong = restore(machine, record)
        records.drop(folder)
        return wrong


def _begin(machine: Machine, record: records.Record, folder: Path) -> records.Record:
    """Save the record; that of a killed apply is completed by what this one may change in addition."""
    old = records.load(folder)
    if old is not None and not old.finished:
        record = records.merge(old, record) if records.is_here(machine, old) else records.add_files(record, old)
    records.save(folder, record)
    return record


def _finish(folder: Path) -> None:
    record = records.load(folder)
    if record is not None and not record.finished:
        records.save(folder, record._replace(finished=True))


def _apply_rounds(look: _Look, comparison: Comparison) -> tuple[tuple[Change, ...], Comparison]:
    done: list[Change] = []
    for number in range(ROUNDS):
        todo = _choose_ready([change for change in comparison.changes if change.do])
        if not todo:
            return tuple(done), comparison
        _execute(look.machine, todo, first=number == 0)
        done += [change for change in todo if change not in done]
        comparison = look.repeat(comparison)
    left = [change for change in comparison.changes if change.do]
    if left:
        listed = "; ".join(f"{change.subject} is {change.have}, not {change.want}" for change in left[:3])
        raise OperationError(f"settings do not stay as they are set: {listed}. Does another program set them?")
    return tuple(done), comparison


def _choose_ready(changes: list[Change]) -> list[Change]:
    """Return the changes of one round; the others wait for the next, as their kinds require."""
    return [
        change
        for change in changes
        if not (wanted := change.setting) or not find_kind(wanted.want).must_wait(wanted, changes)
    ]


def _execute(machine: Machine, changes: Sequence[Change], *, first: bool) -> None:
    """Make changes in order, all netlink messages of a step that follow each other in one batch.

    What was missing when we looked and is there now is no failure of the `first` round: networkd sets the same from our
    own files. The next round looks again, and if it is still not as wanted, the kernel's refusal counts.
    """
    operations = [(change, operation) for change in changes for operation in change.do]
    for (_, network), group in groupby(operations, key=lambda pair: (pair[0].step, isinstance(pair[1], Message))):
        listed = list(group)
        if network:
            batch = [(change, message) for change, message in listed if isinstance(message, Message)]
            _send(machine, batch, _ADDS if first else frozenset())
        else:
            for change, write in listed:
                perform(machine, change, write)


_ADDS = frozenset({RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE})


def _send(machine: Machine, batch: Sequence[tuple[Change, Message]], may_be_there: frozenset[int]) -> None:
    with machine.open_socket() as sock:
        try:
            sock.send([message for _, message in batch])
        except BatchError as error:
            failures = [(*batch[failure.index], failure) for failure in error.failures]
            reasons = [
                _explain(change, failure)
                for change, message, failure in failures
                if not (failure.errno == EEXIST and message.type in may_be_there) and not _is_gone(message, failure)
            ]
            if reasons:
                raise OperationError("; ".join(dict.fromkeys(reasons))) from error


def _is_gone(message: Message, failure: Failure) -> bool:
    """Return whether only a removal failed, of an entry that the kernel had already removed with another."""
    return message.type in {RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE} and failure.errno in GONE


def _rewrite(machine: Machine, change: FileChange) -> None:
    try:
        hostfiles.write(machine, change.path, change.want)
    except OSError as error:
        raise OperationError(f"cannot write {change.path}: {error.strerror}") from error


def _explain(change: Change, failure: Failure) -> str:
    kernel = f": {failure.text}" if failure.text else ""
    hint = ""
    if change.step == "names" and failure.errno == EEXIST:
        hint = f" (an interface has the name or alternative name {change.want}; ip link property del takes one away)"
    if change.step == "names" and failure.errno == EBUSY:
        hint = " (the interface is in use; set it down first)"
    doing = f"setting {change.want}" if change.want != NOTHING else "removing it"
    return f"{change.subject}: {doing} was refused: {os.strerror(failure.errno)}{kernel}{hint}"


def _to_message(error: BaseException, wrong: Sequence[str]) -> str:
    if not wrong:
        return f"{error}; everything was put back"
    return f"{error}; put back, except: {'; '.join(wrong)}"
