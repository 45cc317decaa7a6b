"""How it went on one host, in one line: what is wrong, why, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trackbed.fleet.boot import CUT_SHORT, NO_PYTHON, OLD_PYTHON
from trackbed.fleet.node import MARK

GOOD = frozenset({"same", "applied"})
"""What needs nobody any more."""

SSH_FAILED = 255
"""What ssh(1) ends with when itself fails."""

_NEXT = {
    "disk-full": "free some space there, then run this again with --resume",
    "failed": "mend that, then run this again with --resume",
    "wrong-host": "look at HostName in the ssh configuration, and at the Fabric",
    "busy": "wait for it, then run this again with --resume",
}
_NOTHING_DONE = "nothing was changed there"


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One host's end: `kind` is what `node` answered or why it could not, `told` is for people."""

    node: str
    kind: str
    told: str
    answer: Mapping[str, Any] = {}
    """What `node` said, empty where it said nothing."""

    @property
    def good(self) -> bool:
        """Whether the host is as planned."""
        return self.kind in GOOD

    @property
    def reboots(self) -> bool:
        """Whether something that was set waits for the next boot."""
        return any(change.get("reboot") for change in self.answer.get("changes", ()))

    @property
    def failed(self) -> bool:
        """Whether it counts against --max-failures: a host that differs in a diff does not."""
        return not self.good and self.kind != "differs"


def judged(node: str, status: int | None, said: Sequence[str], errors: Sequence[str]) -> Outcome:
    """The outcome by ssh's exit status (None: it took too long), what the host wrote, and ssh's own errors."""
    ours = [line.removeprefix(MARK) for line in said if line.startswith(MARK)]
    answers = [line for line in ours if line.startswith("{")]
    if answers:
        return _answered(node, answers[-1])
    kind, told = _silent(status, "began" in ours, _last(errors))
    return Outcome(node, kind, told)


def _answered(node: str, line: str) -> Outcome:
    try:
        found: dict[str, Any] = json.loads(line)
        kind = str(found["outcome"])
    except (ValueError, KeyError):
        return Outcome(node, "garbled", "its answer cannot be read; run this again with --resume")
    return Outcome(node, kind, _told(kind, found), found)


def _told(kind: str, found: Mapping[str, Any]) -> str:
    changes, files = found.get("changes", []), found.get("files", [])
    if kind in _NEXT:
        return f"{found.get('message', '')}; {_NEXT[kind]}"
    if kind == "left":
        first = changes[0]
        return f"{len(changes)} still differ; {first['what']} is {first['have']}: {first.get('advice', '')}"
    if kind == "differs":
        return f"{len(changes)} differences, {len(files)} files to write; trackbed apply makes them so"
    if kind == "applied":
        waits = "; a reboot completes it" if any(change.get("reboot") for change in changes) else ""
        return f"{found.get('applied', 0)} changes made, {len(files)} files written{waits}"
    return "as planned"


def _silent(status: int | None, began: bool, last: str) -> tuple[str, str]:  # noqa: FBT001 - a fact among facts
    """Kind and words where the host gave no answer."""
    if status is None:
        what = "it began and did not end in time" if began else "it did not answer in time"
        after = "it puts everything back by itself" if began else _NOTHING_DONE
        return "timeout", f"{what}; {after}; look at the host, or give it longer with --timeout"
    if began:
        return "died", (
            f"it died half-way (exit status {status}{_because(last)}); what it had changed by then is not known here,"
            " nor whether it left an undo record; look at the host, then run this again with --resume: an apply goes"
            " on from a record where there is one"
        )
    known = {
        NO_PYTHON: ("no-python", f"it has no python3, {_NOTHING_DONE}; install python3 there"),
        OLD_PYTHON: ("no-python", f"its python3 is older than 3.11, {_NOTHING_DONE}; install a newer one"),
        CUT_SHORT: ("cut-short", f"the program arrived incomplete, {_NOTHING_DONE}; look at the connection"),
        SSH_FAILED: ("unreachable", f"ssh: {last or 'it failed'}; {_NOTHING_DONE}; try: ssh HOST true"),
    }
    if status in known:
        return known[status]
    if "sudo" in last:
        return "no-sudo", f"{last}; {_NOTHING_DONE}; let this user run python3 by sudo without a password"
    return "failed", f"it did not begin (exit status {status}{_because(last)}); {_NOTHING_DONE}; try: ssh HOST true"


def _because(last: str) -> str:
    return f": {last}" if last else ""


def _last(errors: Sequence[str]) -> str:
    """The last line that tells something; ssh ends lines with a carriage return, too."""
    return next((line.strip() for line in reversed(errors) if line.strip()), "")
