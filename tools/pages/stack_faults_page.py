"""The reference pages of other stacks' faults, and of the messages that show them."""

from collections.abc import Iterator
from itertools import groupby

from trackbed_lab.kubernetes.stack_faults import StackFault, load_stack_faults, load_unnamed_faults

from trackbed.cluster.causes.catalogue import Cause, fill_cause, load_programs

_FAULTS_HEAD = """# Faults of other stacks

Users of each stack reported these faults. Each is made for the tests, and the
command in the third column names it first. Try one: make its state, or give its message to `trackbed explain`.

- **program**: the program runs, of the stack or of Kubernetes, and what it reports is named
- **message**: an event or a status on a real API server, with the message from the program's source
- **object**: an object on a real API server, with the status that its operator writes
- **manifest**: a manifest, before it is applied
- **host**: a host that has the fault, as on the page of [faults](faults.md)
"""
_MESSAGES_HEAD = """# Messages of other stacks

What the errors of other stacks' programs mean, and what to do.
`trackbed status` finds them in the events of pods, `trackbed explain 'MESSAGE'` in a message that you have. The texts
are those of the versions named below; other versions may say it in other words.
"""
_COMMANDS = {
    "status": "`trackbed status`",
    "gate": "`trackbed status`",
    "lint": "`trackbed lint`",
    "doctor": "`trackbed doctor`",
    "explain": "`trackbed apply cluster`, `trackbed explain`",
}


def render_stack_faults_page() -> str:
    """Render the page of faults."""
    return "".join((_FAULTS_HEAD, *_iter_stacks(), *_iter_unnamed()))


def render_messages_page() -> str:
    """Render the page of messages."""
    return "".join((_MESSAGES_HEAD, *_iter_programs()))


def _iter_stacks() -> Iterator[str]:
    faults = load_stack_faults()
    yield f"\n{len(faults)} faults of {len({fault.stack for fault in faults})} stacks.\n"
    for stack, members in groupby(faults, key=lambda fault: fault.stack):
        yield f"\n## {stack}\n\n| fault | reported | named by | as | shown by |\n|---|---|---|---|---|\n"
        yield from map(_render_fault, members)


def _render_fault(fault: StackFault) -> str:
    report = f"[{fault.report.removeprefix('https://github.com/')}]({fault.report})"
    return f"| {fault.title} | {report} | {_COMMANDS[fault.command]} | `{fault.names}` | {_describe_proof(fault)} |\n"


def _describe_proof(fault: StackFault) -> str:
    """Return how the tests make the fault."""
    if fault.run or fault.daemon:
        return "program"
    by_command = {"doctor": "host", "lint": "manifest", "gate": "object"}
    return by_command.get(fault.command, "message")


def _iter_unnamed() -> Iterator[str]:
    yield "\n## Not named\n\n| stack | fault | reported | why |\n|---|---|---|---|\n"
    for fault in load_unnamed_faults():
        report = f"[{fault.report.removeprefix('https://github.com/')}]({fault.report})"
        yield f"| {fault.stack} | {fault.title} | {report} | {fault.why} |\n"


def _iter_programs() -> Iterator[str]:
    for program in load_programs():
        yield f"\n## {program.program}\n\nRead in {program.source}.\n"
        yield from map(_render_cause, program.causes)


def _render_cause(cause: Cause) -> str:
    named = fill_cause(cause, {})
    message = f"\n\n      {' '.join(cause.example.split())}" if cause.example else ""
    return f"\n- `{cause.id}`: {_escape(named.title)}. {_escape(named.cause)} **Fix:** {_escape(named.fix)}{message}\n"


def _escape(text: str) -> str:
    """Return a text whose placeholders, as <node>, are no tags of HTML."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "\\<") for index, part in enumerate(parts))
