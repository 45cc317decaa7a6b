"""Batches of netlink messages, each with its rail and purpose, so that a refusal can name both.

The kernel continues after a refused message. The caller undoes a batch that had a refusal.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import BatchError, Socket


class NetlinkStep(NamedTuple):
    """One message: its rail (-1: none), its action in words, and an errno that is not a failure (0: none)."""

    rail: int
    action: str
    message: Message
    accepted: int = 0


class StepRefusal(NamedTuple):
    """A step that the kernel refused, with its errno and the kernel's explanation."""

    step: NetlinkStep
    errno: int
    explanation: str

    def __str__(self) -> str:
        rail = f"rail {self.step.rail}: " if self.step.rail >= 0 else ""
        explanation = f" ({self.explanation})" if self.explanation else ""
        return f"{rail}cannot {self.step.action}: {os.strerror(self.errno)}{explanation}"


class StepsRefusedError(Exception):
    """The kernel refused steps of a batch."""

    def __init__(self, refusals: tuple[StepRefusal, ...]) -> None:
        super().__init__("; ".join(map(str, refusals)))
        self.refusals = refusals

    def list_rails(self, number: int) -> tuple[int, ...]:
        """Return the rails with a refusal of this errno."""
        return tuple(sorted({refusal.step.rail for refusal in self.refusals if refusal.errno == number}))


def send_steps(sock: Socket, steps: Iterable[NetlinkStep]) -> None:
    """Send all steps in one system call. Raises StepsRefusedError with the refused steps."""
    listed = list(steps)
    try:
        sock.send([step.message for step in listed])
    except BatchError as error:
        refusals = (StepRefusal(listed[failure.index], failure.errno, failure.text) for failure in error.failures)
        counted = tuple(refusal for refusal in refusals if refusal.errno != refusal.step.accepted)
        if counted:
            raise StepsRefusedError(counted) from error
