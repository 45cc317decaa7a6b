"""What runs on the host: reads its request, does it, answers in one line.

    standard input    {"verb": "diff" | "apply" | "boot" | "reboot" | "capture", "name": "gpu-1",
                       "node": {node document}, "files": {format: {path: content}}, "persist": "auto", "seconds": 270,
                       "wanted": {what `capture` reads, as snapshot.Wanted}}
    standard output   trackbed began
                      trackbed {"outcome": ..., ...}

A lost connection does not stop it: an apply that has begun ends by itself, done or put back. Only SIGTERM and its own
limit of `seconds` do, and then everything is put back. Whatever else a login shell prints, only lines that begin with
`trackbed ` count.

The host's files lie under `/`, or under $TRACKBED_ROOT: a captured tree that plays a host.
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
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import parse_node
from trackbed.host import booting
from trackbed.host.boot_id import BOOT_ID
from trackbed.host.change import to_document
from trackbed.host.machine import Machine
from trackbed.host.runner import Ran
from trackbed.host.steps import list_settings
from trackbed.host.transaction.apply import BusyError, HostError, apply
from trackbed.host.transaction.compare import compare, drop_files
from trackbed.host.transaction.files import find_renderer, list_differences, list_warnings
from trackbed.host.transaction.record import find_folder
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links

"""Another one after each boot (random(4))."""
REBOOT = ("systemd-run", "--on-active=1", "systemctl", "reboot")
MARK = "trackbed "
"""Begins each line that is ours."""

_FULL = {errno.ENOSPC, errno.EDQUOT}


def wanted_files(
    machine: Machine, node: NodePlan, request: dict[str, Any]
) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """The files for the next boot (None: files are left alone), and warnings about other files that speak of rails.

    `persist` is a format that the request has files of, `none`, or `auto`: what the machine uses.
    """
    persist = request["persist"]
    if persist == "none":
        return None, ()
    return request["files"][find_renderer(machine) if persist == "auto" else persist], list_warnings(machine, node)


def answer(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    """Do one request on a machine; what went wrong is part of the answer."""
    try:
        return _done(machine, request)
    except BusyError as error:
        return {"outcome": "busy", "message": str(error)}
    except (HostError, OSError, ValueError, NetlinkError, SpecError) as error:
        return {"outcome": "disk-full" if _is_full(error) else "failed", "message": str(error)}


def _done(machine: Machine, request: dict[str, Any]) -> dict[str, Any]:
    if request["verb"] in {"boot", "reboot"}:
        return _booted(machine, reboot=request["verb"] == "reboot")
    if request["verb"] == "capture":
        return _captured(machine, request["wanted"])
    node = parse_node(request["node"])
    if not meant(machine, node, os.uname().nodename):
        return {"outcome": "wrong-host", "message": f"{os.uname().nodename} is not {node.name}: {_OTHER}"}
    if booting.is_pending(machine):
        booting.wait(machine)
    files, told = wanted_files(machine, node, request)
    if request["verb"] == "diff":
        found = compare(machine, list_settings(node))
        found = found if files is not None else drop_files(found)
        paths = [change.path for change in list_differences(machine, files)] if files is not None else []
        outcome = "differs" if found.changes or paths else "same"
        return {"outcome": outcome, "files": paths, "warnings": told} | to_document(found)
    made = apply(machine, list_settings(node), find_folder(machine), files, until_reboot=files is None)
    count = {"applied": len(made.changes), "files": [change.path for change in made.files], "warnings": told}
    touched = "applied" if made.changes or made.files else "same"
    by_hand = any(not change.reboot for change in made.left.changes)
    return {"outcome": "left" if by_hand else touched} | count | to_document(made.left)


_OTHER = "it has another host name and none of the plan's MACs; nothing was changed there"


def meant(machine: Machine, node: NodePlan, hostname: str) -> bool:
    """Whether this host is the plan's: it has its name (domains aside), or a port with one of its MACs.

    PCI addresses tell nothing: all servers of a kind have the same ones.
    """
    if hostname.partition(".")[0].lower() == node.name.partition(".")[0].lower():
        return True
    planned = {port.mac.lower() for port in node.ports if port.mac}
    with machine.open_socket() as sock:
        links = list_links(sock)
    return any(mac and mac.lower() in planned for link in links for mac in (link.mac, link.permanent_mac))


def _booted(machine: Machine, *, reboot: bool) -> dict[str, Any]:
    """Which boot this is; a reboot begins after a moment in which the answer is sent."""
    boot = machine.read(BOOT_ID)
    if not isinstance(boot, str):
        return {"outcome": "failed", "message": f"{BOOT_ID} cannot be read, so nobody could tell whether it rebooted"}
    if reboot and machine.root != Path("/"):
        machine.write_attribute(BOOT_ID, f"{os.urandom(16).hex()}\n")  # a tree that plays a host boots in no time
    elif reboot:
        done = machine.run(REBOOT)
        if not isinstance(done, Ran):
            return {"outcome": "failed", "message": "it has no systemd-run to reboot with; reboot it by hand"}
        if done.status:
            return {"outcome": "failed", "message": f"{' '.join(REBOOT)}: {done.output.strip()}"}
    return {"outcome": "same", "boot": boot}


def _captured(machine: Machine, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the machine shows of what is wanted."""
    from trackbed.host.snapshot.take import take  # noqa: PLC0415 - no other verb needs threads, and they cost a host's time
    from trackbed.host.snapshot.wire import read_wanted, write_snapshot  # noqa: PLC0415 - with it

    return {"outcome": "same", "snapshot": write_snapshot(take(machine, read_wanted(wanted)))}


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def main(raw: bytes) -> None:
    """Do the request in `raw` on this host and print the answer."""
    request = json.loads(raw)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(request["seconds"])
    _say("began")
    found = answer(Machine(Path(os.environ.get("TRACKBED_ROOT", "/"))), request)
    signal.alarm(0)
    _say(json.dumps(found))


def _stop(number: int, _: FrameType | None) -> None:
    """Break off by an error that apply answers with putting everything back; a second signal cannot break that off."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(0)
    late = number == signal.SIGALRM
    raise TimeoutError("it took longer than the time it was given" if late else "it was told to stop (SIGTERM)")


def _say(text: str) -> None:
    with suppress(OSError):  # whoever asked is gone; the work is done all the same
        sys.stdout.write(f"{MARK}{text}\n")
        sys.stdout.flush()
