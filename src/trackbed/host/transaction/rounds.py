"""The rounds of an apply: changes in order, then a new comparison, until nothing differs.

Rounds are needed because a change can revert another: the kernel flushes routes when a port is set down to be renamed,
or when an address gets another prefix length. VFs must exist before they have addresses, and have these before an MTU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from errno import EBUSY, EEXIST, EINVAL, ENETUNREACH, EPERM
from itertools import groupby
from typing import NamedTuple

from trackbed.host.change import ABSENT_VALUE, Change, Comparison
from trackbed.host.kinds.links import TARGET_ABSENT
from trackbed.host.kinds.registry import find_kind
from trackbed.host.kinds.virtual_functions import DPU_MODE
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.transaction.perform import OperationError, perform_operation
from trackbed.kernel.netlink.addresses import RTM_DELADDR, RTM_NEWADDR
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.routes import RTM_DELROUTE, RTM_NEWROUTE
from trackbed.kernel.netlink.rules import RTM_DELRULE, RTM_NEWRULE
from trackbed.kernel.netlink.sockets import BatchError, Failure

MAX_ROUNDS = 4
"""VFs take three rounds (created, addressed, MTU); after four, another program changes the settings."""
_SETTLE_SECONDS = 1.0
"""Pause after a route was refused whose address another program had removed meanwhile."""
_ADDRESS_ABSENT = frozenset({EINVAL, ENETUNREACH})
"""The kernel's errors for a route whose source address or gateway's subnet is not on the machine (fib_semantics.c)."""


def apply_rounds(
    machine: Machine, comparison: Comparison, compare_again: Callable[[Comparison], Comparison]
) -> tuple[tuple[Change, ...], Comparison]:
    """Make the changes of a comparison; return those that were made, and the last comparison.

    A change that its driver refuses, and whose kind tolerates that, is a difference of the last comparison with the
    reason as advice. Raises OperationError, NetlinkError, OSError after any other failure.
    """
    done: list[Change] = []
    refusals: dict[Setting, str] = {}
    for number in range(MAX_ROUNDS):
        todo = _choose_ready_changes([change for change in comparison.changes if change.operations])
        if not todo:
            return tuple(done), comparison
        outcome = _make_changes(machine, todo, number)
        if outcome.is_contested:
            time.sleep(_SETTLE_SECONDS)
        refusals |= outcome.refusals
        done += [change for change in todo if change not in done and change.setting not in refusals]
        comparison = _report_refusals(compare_again(comparison), refusals)
    left = [change for change in comparison.changes if change.operations]
    contested = {change.setting: _describe_contest(change) for change in left if change.setting and _may_fail(change)}
    if len(contested) < len(left):
        listed = "; ".join([_describe_contest(change) for change in left if change.setting not in contested][:3])
        raise OperationError(f"settings do not stay as they are set: {listed}. Does another program set them?")
    return tuple(done), _report_refusals(comparison, contested)


def _describe_contest(change: Change) -> str:
    return f"{change.subject} is {change.have}, not {change.want}"


def _may_fail(change: Change) -> bool:
    """Return whether the driver may refuse a change without the others being undone."""
    return change.setting is not None and find_kind(change.setting.want).tolerates_refusal


def _report_refusals(comparison: Comparison, refusals: Mapping[Setting, str]) -> Comparison:
    """Return the comparison with refused changes as differences that only the user can resolve."""
    changes = [
        change._replace(operations=(), advice=refusals[change.setting])
        if change.setting and change.setting in refusals
        else change
        for change in comparison.changes
    ]
    return Comparison(tuple(changes), comparison.skipped)


def _choose_ready_changes(changes: list[Change]) -> list[Change]:
    """Return the changes to make in this round. A kind can require that a change waits for the next round."""
    first = [change for change in changes if change.setting and find_kind(change.setting.want).is_first]
    return first or [
        change
        for change in changes
        if not change.setting or not find_kind(change.setting.want).must_wait(change.setting, changes)
    ]


class _Outcome(NamedTuple):
    """The refusals that kinds tolerate, by setting, and whether another program may have interfered."""

    refusals: dict[Setting, str]
    is_contested: bool = False


def _make_changes(machine: Machine, changes: Sequence[Change], round_number: int) -> _Outcome:
    """Make changes in order. Consecutive netlink messages of a step are sent as one batch.

    In the first round, EEXIST is not a failure: networkd may have added the entry from Trackbed's files since the
    comparison. Until the last round, a route without its address is none either: NetworkManager removes the addresses
    of a port that gets another name. If the entry still differs in the next round, the kernel's error is reported.

    A refused change's other operations are left out.
    """
    refusals: dict[Setting, str] = {}
    is_contested = False
    operations = [(change, operation) for change in changes for operation in change.operations]
    for (_, network), group in groupby(operations, key=lambda pair: (pair[0].step, isinstance(pair[1], Message))):
        listed = [(change, operation) for change, operation in group if change.setting not in refusals]
        if network:
            batch = [(change, message) for change, message in listed if isinstance(message, Message)]
            outcome = _send_batch(machine, batch, round_number)
            refusals |= outcome.refusals
            is_contested |= outcome.is_contested
        else:
            for change, operation in listed:
                refusals |= _perform(machine, change, operation, refusals)
    return _Outcome(refusals, is_contested)


def _perform(
    machine: Machine, change: Change, operation: object, refusals: Mapping[Setting, str]
) -> dict[Setting, str]:
    """Perform one operation unless an earlier one of its change was refused; return its refusal by setting."""
    if change.setting in refusals:
        return {}
    try:
        perform_operation(machine, change, operation)
    except OperationError as error:
        if not change.setting or not _may_fail(change):
            raise
        return {change.setting: str(error)}
    return {}


_ADDS = frozenset({RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE})


def _send_batch(machine: Machine, batch: Sequence[tuple[Change, Message]], round_number: int) -> _Outcome:
    """Send messages; return the refusals that kinds tolerate. Raises OperationError with all others."""
    with machine.open_socket() as sock:
        try:
            sock.send([message for _, message in batch])
        except BatchError as error:
            failures = [(*batch[failure.index], failure) for failure in error.failures]
            contested = [failure for _, message, failure in failures if _is_contested(message, failure, round_number)]
            reasons = [
                (change, _explain_failure(change, failure))
                for change, message, failure in failures
                if failure not in contested and not _is_ignored_failure(message, failure, round_number)
            ]
            if left := [reason for change, reason in reasons if not _may_fail(change)]:
                raise OperationError("; ".join(dict.fromkeys(left))) from error
            refusals = {change.setting: reason for change, reason in reasons if change.setting}
            return _Outcome(refusals, bool(contested))
    return _Outcome({})


def _is_contested(message: Message, failure: Failure, round_number: int) -> bool:
    """Return whether a route may lack its address because another program has removed that meanwhile."""
    is_last = round_number == MAX_ROUNDS - 1
    return message.type == RTM_NEWROUTE and failure.errno in _ADDRESS_ABSENT and not is_last


def _is_ignored_failure(message: Message, failure: Failure, round_number: int) -> bool:
    """Return whether a failure is ignored.

    An entry to remove may be absent, because the kernel removes an address's routes. An entry to add may exist.
    """
    if message.type in _ADDS:
        return round_number == 0 and failure.errno == EEXIST
    return message.type in {RTM_DELADDR, RTM_DELROUTE, RTM_DELRULE} and failure.errno in TARGET_ABSENT


def _explain_failure(change: Change, failure: Failure) -> str:
    kernel = f": {failure.text}" if failure.text else ""
    hint = ""
    if change.step == "vfs" and failure.errno == EPERM:
        hint = f" (if this is a BlueField: {DPU_MODE})"
    if change.step == "names" and failure.errno == EEXIST:
        hint = f" (an interface has the name or alternative name {change.want}; ip link property del takes one away)"
    if change.step == "names" and failure.errno == EBUSY:
        hint = " (the interface is in use; set it down first)"
    doing = f"setting {change.want}" if change.want != ABSENT_VALUE else "removing it"
    return f"{change.subject}: {doing} was refused: {os.strerror(failure.errno)}{kernel}{hint}"
