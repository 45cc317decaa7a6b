"""Changing a machine to its settings as a transaction: all changes are made, or none, but for what a driver refuses.

    compare ── no difference ──> done
       │
    save the record ──> rounds of changes (`rounds`) ──> write files ──> finish the record ──> done
                            │ failure
                            └──> restore from the record, raise ApplyError

If an apply is killed, or a restoration is incomplete, the unfinished record remains whole: the next apply continues
from the present state, and undo restores the state before. Undo is idempotent, and deletes the record only after
everything was restored.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from trackbed.host.boot_id import read_boot_id
from trackbed.host.change import Change, Comparison
from trackbed.host.kinds import name
from trackbed.host.kinds.registry import find_kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import NAMES
from trackbed.host.transaction import carriers
from trackbed.host.transaction import files as hostfiles
from trackbed.host.transaction import record as records
from trackbed.host.transaction.compare import compare_view, exclude_boot_changes, read_view
from trackbed.host.transaction.files import FileChange
from trackbed.host.transaction.fit import explain_refusal, measure_fit
from trackbed.host.transaction.perform import OperationError
from trackbed.host.transaction.preview import Preview, build_preview
from trackbed.host.transaction.rounds import apply_rounds
from trackbed.host.transaction.undo import restore
from trackbed.kernel.netlink.codec import NetlinkError

UNDO_AGAIN = "the record is kept: remove the cause, then `trackbed apply --undo` restores the rest"
"""What to do after an undo, or the restoration of a failed apply, that was incomplete."""
_REPAIR_AGAIN = "the next repair tries again, and `trackbed apply` sets everything"
_REPAIR_FOLDER = "repair"
"""Folder of the record of a repair, below that of the record of the apply."""

FILES = "files"
"""The step of the network's files in `ApplyOptions.repairs`."""


class HostError(Exception):
    """A machine could not be changed; the message gives the reason and the remedy."""


class ApplyError(HostError):
    """A change failed, and the machine was restored; the message names what could not be restored."""


class BusyError(HostError):
    """Another apply or undo is running on this machine."""


class MisfitError(HostError):
    """The plan would remove too many entries, or not the number that the user confirmed; nothing was changed."""


class StalePreviewError(HostError):
    """The machine differs from its plan in another way than was shown; nothing was changed."""


class NothingToUndoError(HostError):
    """No record of an apply exists."""


class ApplyOptions(NamedTuple):
    """Options of an apply."""

    until_reboot: bool = False
    """Leave out settings for the next boot, so that a reboot reverts the changes."""
    removals: int | None = None
    """The number of removals that the user confirmed; None: a plan that does not fit is refused (see `fit`)."""
    repairs: frozenset[tuple[str, str]] | None = None
    """Make only these changes (step and subject, or step `files` and path), and only while they disrupt no pod.

    The record of the apply before is kept for `undo`: a repair brings back what that apply has made.
    """
    preview: Preview | None = None
    """What the user has confirmed: nothing is changed if anything else differs. None: nothing was shown."""


DEFAULT_OPTIONS = ApplyOptions()


class ApplyResult(NamedTuple):
    """The changes that were made, the files that were written, and the differences that only the user can resolve.

    `warnings` tells what failed after the changes were made.
    """

    changes: tuple[Change, ...]
    files: tuple[FileChange, ...]
    remaining: Comparison
    warnings: tuple[str, ...] = ()


def apply(
    machine: Machine,
    settings: Sequence[Setting],
    folder: Path,
    files: Mapping[str, str] | None = None,
    options: ApplyOptions = DEFAULT_OPTIONS,
) -> ApplyResult:
    """Change the machine to its settings, and its network's files to `files` (None: no file is written or deleted).

    The record for `undo` is saved in `folder`. Raises ApplyError after everything was restored, BusyError while another
    apply is running, MisfitError before any change.
    """
    with _hold_lock(folder):
        comparator = _Comparator(machine, tuple(settings), options)
        if options.repairs is not None:
            return _repair_settings(comparator, folder / _REPAIR_FOLDER, files)
        applied = _apply_settings(comparator, folder, files)
        records.delete_record(folder / _REPAIR_FOLDER)
        names = frozenset(setting.netdev for setting in settings if isinstance(setting.want, name.Want))
        return applied._replace(warnings=tuple(_save_carrier_counts(machine, names, folder)))


def _save_carrier_counts(machine: Machine, names: frozenset[str], folder: Path) -> Iterator[str]:
    """Save the carrier counts; yield why they could not be saved."""
    try:
        carriers.save_counts(machine, names, folder)
    except (OSError, NetlinkError) as error:
        yield (
            f"the carrier counts of the ports could not be saved in {folder / carriers.FILE} ({error}), so"
            " `trackbed doctor` may report flaps wrongly until the next apply; everything is applied"
        )


def _repair_settings(comparator: _Comparator, folder: Path, files: Mapping[str, str] | None) -> ApplyResult:
    """Make the changes of a repair; its record serves a failed or killed repair, and is then deleted."""
    applied = _apply_settings(comparator, folder, files)
    records.delete_record(folder)
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


class _Comparator(NamedTuple):
    """A machine and its settings; `until_reboot` leaves out changes for the next boot."""

    machine: Machine
    settings: tuple[Setting, ...]
    options: ApplyOptions

    def compare(self, view: View) -> Comparison:
        """Return how the machine's state differs from its settings."""
        comparison = exclude_boot_changes(compare_view(view)) if self.options.until_reboot else compare_view(view)
        if (repairs := self.options.repairs) is None:
            return comparison
        chosen = (change for change in comparison.changes if (change.step, change.subject) in repairs)
        return Comparison(tuple(change for change in chosen if change.is_repairable), comparison.skipped)

    def list_files(self, files: Mapping[str, str] | None) -> tuple[FileChange, ...]:
        """Return the network's files to write."""
        changes = hostfiles.list_differences(self.machine, files) if files is not None else ()
        repairs = self.options.repairs
        return tuple(change for change in changes if repairs is None or (FILES, change.path) in repairs)

    def compare_again(self, earlier: Comparison) -> Comparison:
        """Read and compare the machine again.

        Settings that take seconds to read keep their results from `earlier`, unless they were changed meanwhile.
        """
        again = [change.setting for change in earlier.changes if change.operations]
        read_once = [change for change in earlier.changes if change.setting and _is_read_once(change.setting)]
        changes = [change for change in read_once if change.setting not in again]
        skipped = [skip for skip in earlier.skipped if _is_read_once(skip.setting)]
        settings = [setting for setting in self.settings if setting in again or not _is_read_once(setting)]
        now = self.compare(read_view(self.machine, settings))
        changes = sorted([*changes, *now.changes], key=lambda change: NAMES.index(change.step))
        return Comparison(tuple(changes), (*skipped, *now.skipped))


def _is_read_once(setting: Setting) -> bool:
    return find_kind(setting.want).is_read_once


def _apply_settings(comparator: _Comparator, folder: Path, files: Mapping[str, str] | None) -> ApplyResult:
    machine = comparator.machine
    view = read_view(machine, comparator.settings)
    comparison = comparator.compare(view)
    if misfit := explain_refusal(measure_fit(view, comparison), comparator.options.removals):
        raise MisfitError(f"{misfit}; nothing was changed")
    rewritten = comparator.list_files(files)
    _check_preview(comparator.options.preview, comparison, rewritten)
    if not rewritten and not any(change.operations for change in comparison.changes):
        _mark_record_finished(folder)
        return ApplyResult((), (), comparison)
    earlier = records.load_record(folder)
    record = _save_or_extend_record(machine, records.build_record(view, rewritten, comparison.changes), folder)
    try:
        done, left = apply_rounds(machine, comparison, comparator.compare_again)
        for change in rewritten:
            _write_network_file(machine, change)
    except (Exception, KeyboardInterrupt) as error:  # after any error the machine must be restored
        failures = restore(machine, record)
        if not failures:
            _restore_record(folder, earlier)
        if not failures and not isinstance(error, (OperationError, NetlinkError, OSError)):
            raise
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
        again = _REPAIR_AGAIN if comparator.options.repairs is not None else UNDO_AGAIN
        outcome = f"put back, except: {'; '.join(failures)}; {again}" if failures else "everything was put back"
        raise ApplyError(f"{reason}; {outcome}") from error
    if not done and not rewritten and earlier is not None and earlier.finished:
        records.save_record(folder, earlier)  # a driver refused everything: undo still means the apply before
    _mark_record_finished(folder)
    return ApplyResult(done, rewritten, left)


def _check_preview(shown: Preview | None, comparison: Comparison, files: Sequence[FileChange]) -> None:
    """Raise StalePreviewError if the machine differs in another way than was shown."""
    if shown is not None and build_preview(comparison, files) != shown:
        raise StalePreviewError("the host has changed since its differences were shown")


def _restore_record(folder: Path, earlier: records.Record | None) -> None:
    """Let undo mean the apply before the failed one, of which everything was put back.

    The record of a killed apply was restored with that of the failed one. On a full disk the present record is kept:
    its undo changes nothing.
    """
    if earlier is None or not earlier.finished:
        records.delete_record(folder)
        return
    with suppress(OSError):
        records.save_record(folder, earlier)


def describe_undo(folder: Path) -> str:
    """Return what an undo that fails in nothing has restored. Raises ValueError on an invalid record.

    Of a host that has booted since the apply only the files are restored: its network is as they were at that boot.
    """
    record = records.load_record(folder)
    if record is None or record.boot == read_boot_id():
        return "the state before the last apply is restored"
    return "the files of before the last apply are restored; reboot this host to have the rest as it was before"


def undo(machine: Machine, folder: Path) -> tuple[str, ...]:
    """Restore the machine to its state before the last apply; return what could not be restored.

    The record is deleted only if everything was restored. Raises NothingToUndoError without a record.
    """
    with _hold_lock(folder):
        record = records.load_record(folder)
        if record is None:
            raise NothingToUndoError(f"there is nothing to undo: {folder / records.FILE} is not there")
        _mark_record_unfinished(folder, record)
        failures = restore(machine, record)
        if not failures:
            records.delete_record(folder)
            records.delete_record(folder / _REPAIR_FOLDER)
        return failures


def _mark_record_unfinished(folder: Path, record: records.Record) -> None:
    """Let an apply after a killed or incomplete undo extend the record instead of replacing it.

    This is best effort: a full disk must not prevent an undo.
    """
    with suppress(OSError):
        records.save_record(folder, record._replace(finished=False))


def _save_or_extend_record(machine: Machine, record: records.Record, folder: Path) -> records.Record:
    """Save the record, extended by that of an apply that was killed; return the saved record."""
    old = records.load_record(folder)
    if old is not None and not old.finished:
        record = (
            records.merge_records(old, record) if records.is_current(machine, old) else records.add_files(record, old)
        )
    records.save_record(folder, record)
    return record


def _mark_record_finished(folder: Path) -> None:
    record = records.load_record(folder)
    if record is not None and not record.finished:
        records.save_record(folder, record._replace(finished=True))


def _write_network_file(machine: Machine, change: FileChange) -> None:
    try:
        hostfiles.write_file(machine, change.path, change.want)
    except OSError as error:
        raise OperationError(f"cannot write {change.path}: {error.strerror}") from error
