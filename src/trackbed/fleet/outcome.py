"""The outcome of one host, with a message for people: what is wrong, why, and what to do next."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from trackbed.fabric.counts import format_count
from trackbed.fleet.boot import CUT_SHORT, NO_PYTHON, parse_refusal
from trackbed.fleet.interpreters import explain_refusal
from trackbed.fleet.node import MARK
from trackbed.fleet.task import Verb
from trackbed.host.ssh_output import MAX_OUTPUT_BYTES

NOT_BEGUN = "not-begun"
UNKNOWN_KINDS = frozenset({"unreachable", NOT_BEGUN})
"""Kinds of outcome that say nothing about the host."""

GOOD_KINDS = frozenset({"same", "applied", "undone"})
"""Kinds of outcome that need no further action."""

SSH_FAILED = 255
"""Exit status of ssh(1) for its own errors."""

_ADVICE = {
    "disk-full": "free some space there, then {repeat}",
    "failed": "mend that, then {repeat}",
    "wrong-host": "look at HostName in the ssh configuration, and at the Fabric",
    "misfit": "then {repeat}",
    "busy": "wait for it, then {repeat}",
}


class _Wording(NamedTuple):
    """What messages say of a host that did not do its task."""

    consequence: str
    """What holds where the task did not begin."""
    unended: str
    """What holds where it began and did not end in time."""
    half_way: str
    """What holds, and what to do, where it died."""
    repeat: str
    """How to try again."""


_CHANGING = _Wording(
    "nothing was changed there",
    "it puts everything back by itself",
    "what it had changed by then is not known here, nor whether it left an undo record; look at the host, then run this"
    " again with --resume: an apply goes on from a record where there is one",
    "run this again with --resume",
)
_READING = _Wording(
    "it was not read",
    "it was not read",
    "it was not read, and reading changes nothing; look at the host, then run this again",
    "run this again",
)


_PROVING = _Wording(
    "it takes no part",
    "it takes no part",
    "nothing is left of it there",
    "run this again",
)


def _get_wording(verb: Verb) -> _Wording:
    if verb == "prove":
        return _PROVING
    return _READING if verb in {"capture", "diff", "inspect"} else _CHANGING


_MAX_MESSAGE_CHARACTERS = 1000
_Kind = Literal["same", "applied", "undone", "left", "differs", "misfit", "busy", "failed", "disk-full", "wrong-host"]
"""The outcomes in answers of `node`."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a request to one host. `kind` is the outcome in its answer, or the reason for a missing answer."""

    node: str
    kind: str
    message: str = msgspec.field(name="told")
    """One line for people."""
    answer: Mapping[str, Any] = {}
    """The answer of `node`; empty if there is none."""

    @property
    def is_good(self) -> bool:
        """Whether the host is as planned, apart from changes that need a reboot."""
        return self.kind in GOOD_KINDS

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of the host."""
        return self.kind in UNKNOWN_KINDS

    @property
    def needs_reboot(self) -> bool:
        """Whether a change takes effect only at the next boot."""
        return any(change.get("reboot") for change in self.answer.get("changes") or ())

    @property
    def is_failure(self) -> bool:
        """Whether the host counts as a failure for --max-failures; a difference found by a diff does not."""
        return not self.is_good and self.kind != "differs"


class _Change(msgspec.Struct, frozen=True):
    """A difference in an answer."""

    subject: str = msgspec.field(default="", name="what")
    have: str = ""
    advice: str = ""
    reboot: bool = False


class _Answer(msgspec.Struct, frozen=True):
    """The fields of an answer from which a message is made; see `node` for all of them."""

    outcome: _Kind
    message: str = ""
    changes: tuple[_Change, ...] = ()
    files: tuple[str, ...] = ()
    applied: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0
    misfit: str = ""
    boot: str = ""


def judge_output(node: str, verb: Verb, status: int | None, output: Sequence[str], errors: Sequence[str]) -> Outcome:
    """Return the outcome of a host from what its ssh returned for a task of this verb.

    `status` is the exit status of ssh, None after a timeout. `output` and `errors` are the lines of its two streams.
    """
    wording = _get_wording(verb)
    marked = [line.removeprefix(MARK) for line in output if line.startswith(MARK)]
    answers = [line for line in marked if line.startswith("{")]
    if answers:
        return _parse_answer(node, answers[-1], wording)
    if status == NO_PYTHON and not marked:
        return Outcome(node, "no-python", _shorten(explain_refusal(parse_refusal(output), wording.consequence)))
    last_error = _find_last_line(errors).removeprefix("ssh: ")
    kind, message = _explain_silence(status, "began" in marked, last_error, node, wording)
    return Outcome(node, kind, _shorten(message))


def explain_oversized_output(verb: Verb) -> str:
    """Return the message for a host that sent more than may be kept."""
    wording = _get_wording(verb)
    consequence = wording.consequence if wording is _READING else "what it changed by then is not known here"
    size = MAX_OUTPUT_BYTES >> 20
    return f"it sent more than {size} MiB, so it was given up; {consequence}; look at the host, then {wording.repeat}"


def explain_unread(outcome: Outcome) -> str:
    """Return why nothing was read of a host, in one sentence that is alike on hosts with the same trouble."""
    reason = outcome.message.partition("; ")[0]
    if outcome.is_good:
        return "its answer has nothing of what was asked for"
    if outcome.kind == "unreachable":
        return f"ssh does not reach it ({_drop_address(reason.removeprefix('ssh: '))})"
    return reason


def _drop_address(reason: str) -> str:
    """Return the last words of ssh(1) without the host's name, address and port, which differ on each host."""
    for pattern, replacement in _ADDRESSES:
        reason = pattern.sub(replacement, reason)
    return reason


_ADDRESSES = (
    (re.compile(r"^connect to (?:host|address) \S+ port \d+: "), ""),
    (re.compile(r"^\S+@\S+: (?=Permission denied)"), ""),
    (re.compile(r"^(Could not resolve hostname) [^ :]+(?=:)"), r"\1"),
    (re.compile(r"^(Connection (?:closed|reset) by) (?:\S+ )*\S+ port \d+"), r"\1 it"),
    (re.compile(r"^Connection to \S+ port \d+ timed out"), "Connection timed out"),
)


def _parse_answer(node: str, line: str, wording: _Wording) -> Outcome:
    """Return the outcome in an answer. A host may send anything, so an answer of another form is an outcome, too."""
    try:
        document = _decode_json(line)
        answer = msgspec.convert(document, _Answer)
        return Outcome(node, answer.outcome, _shorten(_describe_answer(answer, wording)), document)
    except (ValueError, LookupError, RecursionError):
        return Outcome(node, "garbled", f"its answer cannot be read; {wording.repeat}")


def _decode_json(line: str) -> Any:  # noqa: ANN401 - the host may send any JSON
    """Decode JSON; lone surrogates, which a host's json module may write, become question marks."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace"))


def _describe_answer(answer: _Answer, wording: _Wording) -> str:
    """Return the message for people. Raises LookupError if a part is missing."""
    kind, changes = answer.outcome, answer.changes
    if kind == "undone":
        if not answer.message:
            raise LookupError("an undo says what it has restored")
        return answer.message
    if kind in _ADVICE:
        return f"{answer.message}; {_ADVICE[kind].format(repeat=wording.repeat)}"
    if kind == "left":
        first = changes[0]
        return f"{len(changes)} still differ; {first.subject} is {first.have}: {first.advice}"
    if kind == "differs":
        misfit = f"; apply refuses it: {answer.misfit}" if answer.misfit else "; trackbed apply makes them so"
        return f"{format_count(len(changes), 'difference')}, {format_count(len(answer.files), 'file')} to write{misfit}"
    if kind == "applied":
        reboot = "; a reboot completes it" if any(change.reboot for change in changes) else ""
        return (
            f"{format_count(answer.applied, 'change')} made, {format_count(len(answer.files), 'file')} written{reboot}"
        )
    return "as planned"


def _shorten(message: str) -> str:
    """Return a message in one line of bounded length."""
    return " ".join(message.split())[:_MAX_MESSAGE_CHARACTERS]


def _explain_silence(
    status: int | None,
    began: bool,  # noqa: FBT001 - one of three equal facts of a host
    last_error: str,
    node: str,
    wording: _Wording,
) -> tuple[str, str]:
    """Return the kind and the message for a host that gave no answer."""
    advice = f"try: ssh {node} true"
    if status is None:
        trouble = "it began and did not end in time" if began else "it did not answer in time"
        consequence = wording.unended if began else wording.consequence
        return "timeout", f"{trouble}; {consequence}; look at the host, or give it longer with --timeout"
    reason = f"exit status {status}: {last_error}" if last_error else f"exit status {status}"
    if began:
        return "died", f"it died half-way ({reason}); {wording.half_way}"
    known = {
        CUT_SHORT: ("cut-short", f"the program arrived incomplete, {wording.consequence}; look at the connection"),
        SSH_FAILED: ("unreachable", f"ssh: {last_error or 'it failed'}; {wording.consequence}; {advice}"),
    }
    if status in known:
        return known[status]
    if "sudo" in last_error:
        return "no-sudo", f"{last_error}; {wording.consequence}; let this user run Python by sudo without a password"
    return "failed", f"it did not begin ({reason}); {wording.consequence}; {advice}"


def _find_last_line(errors: Sequence[str]) -> str:
    """Return the last line that is not empty, without the carriage return that ssh adds."""
    return next((line.strip() for line in reversed(errors) if line.strip()), "")
