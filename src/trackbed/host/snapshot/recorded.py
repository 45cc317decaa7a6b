"""A captured machine: its files in a folder, and recorded outputs in place of its programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult

RECORD = "trackbed-capture.json"
"""Name of the record in the root of a captured tree."""


class Output(msgspec.Struct, frozen=True):
    """The recorded exit status and output of one command."""

    argv: tuple[str, ...]
    status: int
    output: str


class Record(msgspec.Struct, frozen=True):
    """The outputs of programs, and what was masked or left out."""

    outputs: tuple[Output, ...]
    masked: tuple[str, ...] = ()
    """Files and programs in which a secret was masked."""
    withheld: Mapping[str, str] = {}
    """Files and programs that were left out -> the reason."""
    format: str = "trackbed-capture/1"
    identified: bool = False
    """Whether names and addresses are the machine's own, so that archives of several machines can be compared."""


@dataclass(frozen=True, slots=True)
class RecordedPrograms:
    """A program runner that returns the outputs recorded at capture, and starts no program."""

    outputs: Mapping[tuple[str, ...], ProgramResult]

    def has_program(self, program: str) -> bool:
        """Return whether any output of this program was recorded."""
        return any(argv[0] == program for argv in self.outputs)

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Return the recorded output; status 127 for a command that was not recorded."""
        return self.outputs.get(tuple(argv), ProgramResult(127, f"{' '.join(argv)} was not recorded"))


UNSEEN = "a captured machine's archive does not hold its network state; name one with --netns, or ask on the machine"


def is_captured(root: Path) -> bool:
    """Return whether a folder is a captured tree."""
    return (root / RECORD).is_file()


def is_identified(root: Path) -> bool:
    """Return whether the captured tree has the machine's own names and addresses. Raises ValueError if unreadable."""
    record = _read_record(root)
    return record is not None and record.identified


def open_machine(root: Path, netns: Path | None = None) -> Machine:
    """Return the machine whose files are in a folder. For a captured tree, no program is run and no network is read.

    Raises ValueError if the record of a captured tree cannot be parsed.
    """
    record = _read_record(root)
    if record is None:
        return Machine(root, netns)
    return Machine(root, netns, build_runner(record), "" if netns else UNSEEN)


def build_runner(record: Record) -> RecordedPrograms:
    """Return a runner with the outputs of a record."""
    return RecordedPrograms({output.argv: ProgramResult(output.status, output.output) for output in record.outputs})


def decode_record(content: bytes) -> Record:
    """Decode the record of a captured machine. Raises ValueError if it cannot be parsed."""
    try:
        return msgspec.json.decode(content, type=Record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its {RECORD} cannot be read ({error})") from error


def _read_record(root: Path) -> Record | None:
    """Return the record of a captured tree; None if the folder is none. Raises ValueError if it cannot be parsed."""
    try:
        return decode_record((root / RECORD).read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ValueError(f"{root / RECORD} cannot be read ({error}); unpack the archive once more") from error
