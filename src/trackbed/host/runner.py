"""The one place that starts programs on a machine.

A program that is not there is `Absent`, which is no failure: the caller then says what a person must run. Everything a
program said is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders in which programs are searched, independent of the caller's PATH."""

TIMEOUT_SECONDS = 300
"""The slowest program is update-grub, which probes every disk for other systems."""


class Ran(NamedTuple):
    """The exit status of a program (124: timeout, 126: not startable) and its stdout and stderr together."""

    status: int
    output: str


class Runner(Protocol):
    """Starts programs on one machine."""

    def has_program(self, program: str) -> bool:
        """Return whether the program exists."""

    def run(self, argv: Sequence[str]) -> Ran:
        """Run a program to its end. `has_program` must have returned true."""


class Local:
    """Runs programs on this host."""

    def has_program(self, program: str) -> bool:
        """Return whether the program is in one of the folders of PATH."""
        return any(os.access(f"{folder}/{program}", os.X_OK) for folder in PATH.split(":"))

    def run(self, argv: Sequence[str]) -> Ran:
        """Run a program without input, in the C locale, for at most TIMEOUT_SECONDS."""
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
