"""Netlink messages that say what they are for, sent as one batch, so that a refusal names rail and intent.

The kernel goes on after a message it refuses; a batch with a refusal is undone by its caller.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import NamedTuple

from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import BatchError, Socket


class Step(NamedTuple):
    """One message, the rail it is for (-1: none), what it does in words, and the refusal (errno) that is no failure."""

    rail: int
    what: str
    message: Message
    accepted: int = 0


class Refusal(NamedTuple):
    """A step that the kernel refused, and how."""

    step: Step
    errno: int
    words: str

    def __str__(self) -> str:
        rail = f"rail {self.step.rail}: " if self.step.rail >= 0 else ""
        kernel = f" ({self.words})" if self.words else ""
        return f"{rail}cannot {self.step.what}: {os.strerror(self.errno)}{kernel}"


class StepsRefusedError(Exception):
    """Steps that the kernel refused."""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__("; ".join(map(str, refusals)))
        self.refusals = refusals

    def rails(self, number: int) -> tuple[int, ...]:
        """The rails refused with this errno."""
        return tuple(sorted({refusal.step.rail for refusal in self.refusals if refusal.errno == number}))


def send(sock: Socket, steps: Iterable[Step]) -> None:
    """Have the kernel do all steps in one system call; StepsRefusedError with those it did not do."""
    listed = list(steps)
    try:
        sock.send([step.message for step in listed])
    except BatchError as error:
        refused = (Refusal(listed[failure.index], failure.errno, failure.text) for failure in error.failures)
        counted = tuple(refusal for refusal in refused if refusal.errno != refusal.step.accepted)
        if counted:
            raise StepsRefusedError(counted) from error


GONE = errno.ENODEV
ABSENT = errno.ENOENT
NO_ROUTE = errno.ESRCH
THERE = errno.EEXIST
TAKEN = errno.EADDRINUSE
