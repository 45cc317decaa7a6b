"""The one place that starts programs on a machine.

A program that is not there is `Absent`, which is no failure: the caller then says what a person must run. Everything a
program said is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for, whatever the caller's PATH says."""

TIMEOUT_SECONDS = 300
"""update-grub asks every disk for other systems; nothing here takes longer."""


class Ran(NamedTuple):
    """How a program ended: exit status (124: it took too long), and what it wrote to either stream."""

    status: int
    output: str


class Runner(Protocol):
    """What starts programs on one machine."""

    def has_program(self, program: str) -> bool:
        """Whether the program is there."""

    def run(self, argv: Sequence[str]) -> Ran:
        """Run it to its end; only called where `has` says yes."""


class Local:
    """Runs programs on this host."""

    def has_program(self, program: str) -> bool:
        """Whether the program is in one of the usual folders."""
        return any(os.access(f"{folder}/{program}", os.X_OK) for folder in PATH.split(":"))

    def run(self, argv: Sequence[str]) -> Ran:
        """Run it without input, in the C locale, for TIMEOUT_SECONDS at most."""
        import subprocess  # noqa: PLC0415 - a tenth of the time of a host on which no program is run

        environment = {"PATH": PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")}
        try:
            process = subprocess.run(  # noqa: S603 - the commands are Trackbed's own, argument by argument, no shell
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Ran(124, f"{argv[0]} took more than {TIMEOUT_SECONDS} s: {_decode(error.output)}")
        except OSError as error:
            return Ran(126, f"{argv[0]} cannot be started: {error.strerror}")
        return Ran(process.returncode, _decode(process.stdout))


def _decode(raw: bytes | str | None) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw or ""
