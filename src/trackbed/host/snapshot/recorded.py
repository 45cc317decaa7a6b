"""A machine that was captured: its files under a folder, and what its programs said instead of the programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trackbed.host.machine import Machine
from trackbed.host.runner import Ran

RECORD = "trackbed-capture.json"
"""In the root of a captured tree."""

FORMAT = "trackbed-capture/1"


class Output(msgspec.Struct, frozen=True):
    """How one program ended."""

    argv: tuple[str, ...]
    status: int
    output: str


class Record(msgspec.Struct, frozen=True):
    """What a captured tree holds beside files."""

    outputs: tuple[Output, ...]
    masked: tuple[str, ...] = ()
    """Files in which something was blanked."""
    format: str = FORMAT


@dataclass(frozen=True, slots=True)
class Recorded:
    """Answers with what programs said when the machine was captured; starts nothing."""

    outputs: Mapping[tuple[str, ...], Ran]

    def has_program(self, program: str) -> bool:
        """Whether anything of this program was recorded."""
        return any(argv[0] == program for argv in self.outputs)

    def run(self, argv: Sequence[str]) -> Ran:
        """What it said; status 127 for a call that nobody recorded."""
        return self.outputs.get(tuple(argv), Ran(127, f"{' '.join(argv)} was not recorded"))


UNSEEN = "a captured machine's archive does not hold its network state; name one with --netns, or ask on the machine"


def open_machine(root: Path, netns: Path | None = None) -> Machine:
    """The machine below a folder. In a captured tree nothing runs, and this host's network is not taken for its own.

    ValueError where the tree's record is none of ours.
    """
    try:
        record = msgspec.json.decode((root / RECORD).read_bytes(), type=Record)
    except FileNotFoundError:
        return Machine(root, netns)
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{root / RECORD} cannot be read ({error}); unpack the archive once more") from error
    programs = Recorded({output.argv: Ran(output.status, output.output) for output in record.outputs})
    return Machine(root, netns, programs, "" if netns else UNSEEN)
