"""A captured machine: its files under a folder, and recorded outputs in place of its programs."""

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
    """Returns the outputs that were recorded at capture; starts no programs."""

    outputs: Mapping[tuple[str, ...], Ran]

    def has_program(self, program: str) -> bool:
        """Return whether any output of this program was recorded."""
        return any(argv[0] == program for argv in self.outputs)

    def run(self, argv: Sequence[str]) -> Ran:
        """Return the recorded output; status 127 for a command that was not recorded."""
        return self.outputs.get(tuple(argv), Ran(127, f"{' '.join(argv)} was not recorded"))


UNSEEN = "a captured machine's archive does not hold its network state; name one with --netns, or ask on the machine"


def open_machine(root: Path, netns: Path | None = None) -> Machine:
    """Return the machine below a folder. For a captured tree no program is started and this host's network is not read.

    Raises ValueError where the tree's record cannot be parsed.
    """
    try:
        record = msgspec.json.decode((root / RECORD).read_bytes(), type=Record)
    except FileNotFoundError:
        return Machine(root, netns)
    except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{root / RECORD} cannot be read ({error}); unpack the archive once more") from error
    programs = Recorded({output.argv: Ran(output.status, output.output) for output in record.outputs})
    return Machine(root, netns, programs, "" if netns else UNSEEN)
