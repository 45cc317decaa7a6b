"""The program that runs on a host: it handles one request and answers in one line of JSON.

    standard input    {"verb": "diff" | "apply" | "undo" | "boot" | "reboot" | "capture" | "inspect" | "prove" |
                               "prove-in-pod",
                       "name": "gpu-1",
                       "node": {node document}, "files": {format: {path: content}}, "persist": "auto", "seconds": 270,
                       "wanted": {what `capture` reads, as snapshot.Wanted},
                       "reading": {what `inspect` reads, as reading.ReadingRequest},
                       "removals": the confirmed number of removals,
                       "repairs": [[step, subject], ...] of the only changes that `apply` makes, in place}
    standard output   trackbed began
                      trackbed {"outcome": ..., ...}

A lost connection does not stop it: an apply that has begun ends by itself, completed or rolled back. Only SIGTERM and
the limit of `seconds` stop it, and then it rolls back. Verb `prove` changes nothing and ends with its input, and
`prove-in-pod` with its mailbox; `seconds` limit the wait for the next sheet. Only lines that begin with `trackbed `
count; a login shell may print others.

The host's files are read under `/`, or under $TRACKBED_ROOT, a captured tree that stands in for a host.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import decode_node, parse_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host import booting
from trackbed.host.boot_id import BOOT_ID
from trackbed.host.change import Comparison, to_document
from trackbed.host.kinds.file import NODE_PLAN
from trackbed.host.kinds.registry import find_kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.network_manager import ManagerError
from trackbed.host.runner import ProgramResult
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import (
    UNDO_AGAIN,
    ApplyOptions,
    BusyError,
    HostError,
    MisfitError,
    NothingToUndoError,
    apply,
    describe_undo,
    undo,
)
from trackbed.host.transaction.boot_files import BootFiles, select_files
from trackbed.host.transaction.compare import compare_view, exclude_boot_changes, read_view
from trackbed.host.transaction.files import list_differences
from trackbed.host.transaction.fit import explain_misfit, measure_fit
from trackbed.host.transaction.record import find_folder
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links

REBOOT = ("systemd-run", "--on-active=1", "systemctl", "reboot")
MARK = "trackbed "
"""Prefix of each output line for the control node."""

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}


def handle_request(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Handle a request and return the answer; errors are answers, too."""
    try:
        return _HANDLERS.get(request["verb"], _change_host)(machine, request)
    except (MisfitError, ManagerError) as error:
        return {"outcome": "misfit", "message": str(error)}
    except BusyError as error:
        return {"outcome": "busy", "message": str(error)}
    except (HostError, OSError, ValueError, NetlinkError, SpecError) as error:
        return {"outcome": "disk-full" if _is_disk_full(error) else "failed", "message": str(error)}


def _change_host(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Compare, apply or undo, on the planned host alone."""
    node, hostname = parse_node(request["node"]), os.uname().nodename
    if not is_planned_host(machine, node, hostname):
        reason = "it has another host name and none of the plan's MACs; nothing was changed there"
        return {"outcome": "wrong-host", "message": f"{hostname} is not {node.name}: {reason}"}
    if booting.is_boot_unit_pending(machine):
        booting.wait_for_boot_unit(machine)
    return _undo_last_apply(machine) if request["verb"] == "undo" else _diff_or_apply(machine, node, request)


def _undo_last_apply(machine: Machine) -> dict[str, Any]:
    folder = find_folder(machine)
    outcome = describe_undo(folder)
    try:
        failures = undo(machine, folder)
    except NothingToUndoError as error:
        return {"outcome": "undone", "message": str(error)}
    if failures:
        message = f"not restored: {'; '.join(failures)}; everything else is restored; {UNDO_AGAIN}"
        return {"outcome": "failed", "message": message}
    return {"outcome": "undone", "message": outcome}


def _diff_or_apply(machine: Machine, node: NodePlan, request: dict[str, Any]) -> dict[str, Any]:
    if request["verb"] == "diff":
        return _diff(machine, node, request)
    files, warnings = _select_files(machine, node, request)
    repairs = request.get("repairs")
    only = None if repairs is None else frozenset((step, subject) for step, subject in repairs)
    options = ApplyOptions(files is None, request.get("removals"), only)
    applied = apply(machine, iter_settings(node), find_folder(machine), files, options)
    paths = [change.path for change in applied.files]
    counts = {"applied": len(applied.changes), "files": paths, "warnings": [*warnings, *applied.warnings]}
    outcome = "applied" if applied.changes or applied.files else "same"
    if any(not change.reboot for change in applied.remaining.changes):
        outcome = "left"
    return {"outcome": outcome} | counts | to_document(applied.remaining)


def _has_plan(machine: Machine, node: NodePlan) -> bool:
    """Return whether an apply has given the host this very plan, perhaps in the words of another version."""
    text = machine.read(NODE_PLAN)
    try:
        return isinstance(text, str) and decode_node(text.encode()) == node
    except SpecError:
        return False


def _find_writers(view: View, comparison: Comparison) -> dict[str, list[str]]:
    """Return by subject what may have set a value that apply could repair in place: programs and files of others."""
    by_subject = (
        (change.subject, list(find_kind(change.setting.want).find_writers(change.setting.want, view)))
        for change in comparison.changes
        if change.setting and change.is_repairable
    )
    return {subject: writers for subject, writers in by_subject if writers}


def _diff(machine: Machine, node: NodePlan, request: dict[str, Any]) -> dict[str, Any]:
    refusal, (files, warnings) = "", BootFiles(None)
    try:
        files, warnings = _select_files(machine, node, request)
    except ManagerError as error:
        refusal = str(error)
    view = read_view(machine, iter_settings(node))
    comparison = compare_view(view)
    if files is None and not refusal:
        comparison = exclude_boot_changes(comparison)
    misfit = refusal or explain_misfit(measure_fit(view, comparison))
    paths = [change.path for change in list_differences(machine, files)] if files is not None else []
    outcome = "differs" if comparison.changes or paths or refusal else "same"
    document = {"outcome": outcome, "files": paths, "warnings": warnings} | to_document(comparison)
    document |= {"writers": _find_writers(view, comparison), "has_plan": _has_plan(machine, node)}
    return document | ({"misfit": misfit} if misfit else {})


def _select_files(machine: Machine, node: NodePlan, request: dict[str, Any]) -> BootFiles:
    """Return the files for the next boot: those of the request's `persist`, which were rendered by the sender."""
    return select_files(machine, node, request["persist"], lambda chosen: request["files"][chosen])


def is_planned_host(machine: Machine, node: NodePlan, hostname: str) -> bool:
    """Return whether this is the planned host: it has the planned name (without domain), or a port with a planned MAC.

    PCI addresses are no evidence, since they are equal on all servers of a model.
    """
    if hostname.partition(".")[0].lower() == node.name.partition(".")[0].lower():
        return True
    planned = {port.mac.lower() for port in node.ports if port.mac}
    with machine.open_socket() as sock:
        links = list_links(sock)
    return any(mac and mac.lower() in planned for link in links for mac in (link.mac, link.permanent_mac))


def _handle_boot(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with the boot id; verb `reboot` schedules a reboot in one second, after the answer is sent."""
    boot, reboot = machine.read(BOOT_ID), request["verb"] == "reboot"
    if not isinstance(boot, str):
        return {"outcome": "failed", "message": f"{BOOT_ID} cannot be read, so nobody could tell whether it rebooted"}
    if reboot and machine.root != Path("/"):
        machine.write_attribute(BOOT_ID, f"{os.urandom(16).hex()}\n")  # a captured tree reboots at once
    elif reboot:
        result = machine.run(REBOOT)
        if not isinstance(result, ProgramResult):
            return {"outcome": "failed", "message": "it has no systemd-run to reboot with; reboot it by hand"}
        if result.status:
            return {"outcome": "failed", "message": f"{' '.join(REBOOT)}: {result.output.strip()}"}
    return {"outcome": "same", "boot": boot}


def _capture_snapshot(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    from trackbed.host.snapshot.take import read_snapshot  # noqa: PLC0415 - only this verb needs threads, whose import takes time
    from trackbed.host.snapshot.wire import build_snapshot_document, parse_wanted  # noqa: PLC0415 - as above

    return {
        "outcome": "same",
        "snapshot": build_snapshot_document(read_snapshot(machine, parse_wanted(request["wanted"]))),
    }


def _inspect(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Read everything that doctor needs of the host."""
    from trackbed.host.snapshot import reading  # noqa: PLC0415 - as for a snapshot

    answer = reading.read_host(machine, reading.parse_request(request["reading"]))
    return {"outcome": "same", "reading": reading.build_reading_document(answer)}


def _serve_sheets(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Run the sheets of a proof until standard input ends."""
    from trackbed.fleet import proof_worker  # noqa: PLC0415 - as for a snapshot

    for number in (signal.SIGTERM, signal.SIGALRM):  # nothing is rolled back: the kernel ends the programs
        signal.signal(number, signal.SIG_DFL)
    proof_worker.serve_sheets(
        machine,
        sys.stdin.fileno(),
        lambda message: _print_line(json.dumps(message)),
        lambda seconds: signal.alarm(seconds + request["seconds"]),
    )
    return {"outcome": "same"}


def _serve_mailbox(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Run the sheets of a proof in a pod until its mailbox is gone."""
    from trackbed.fleet.mailbox import Mailbox  # noqa: PLC0415 - as for a snapshot
    from trackbed.fleet.pod_worker import serve_mailbox  # noqa: PLC0415 - as above

    signal.alarm(0)  # the worker has the limit, in a process of its own
    serve_mailbox(machine, Mailbox(os.environ), request["seconds"])
    return {"outcome": "same"}


_HANDLERS = {
    "boot": _handle_boot,
    "reboot": _handle_boot,
    "capture": _capture_snapshot,
    "inspect": _inspect,
    "prove": _serve_sheets,
    "prove-in-pod": _serve_mailbox,
}
"""The requests that change no setting, by verb."""


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
            return True
        error = error.__cause__
    return False


def main(raw: bytes) -> None:
    """Handle the JSON request `raw` on this host and print the answer."""
    request = json.loads(raw)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(request["seconds"])
    _print_line("began")
    answer = handle_request(Machine(Path(os.environ.get("TRACKBED_ROOT", "/"))), request)
    signal.alarm(0)
    _print_line(json.dumps(answer))


def _interrupt(signal_number: int, _: FrameType | None) -> None:
    """Raise TimeoutError, so that an apply rolls back; a second signal cannot interrupt the rollback."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(0)
    timed_out = signal_number == signal.SIGALRM
    raise TimeoutError("it took longer than the time it was given" if timed_out else "it was told to stop (SIGTERM)")


def _print_line(text: str) -> None:
    with suppress(OSError):  # the connection may be lost; the work is completed without it
        sys.stdout.write(f"{MARK}{text}\n")
        sys.stdout.flush()
