"""Batches of netlink messages, each with its rail and purpose, so that a refusal can name both.

The kernel processes the rest of a batch after it refuses a message. The caller then undoes the batch.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import BatchError, Socket

_log = logging.getLogger(__name__)


class NetlinkStep(NamedTuple):
    """A message with its rail (-1 if it concerns several), its action in words, and an errno that counts as success.

    `accepted_reasons` are more such errnos, each with the reason that is logged where the kernel answers so.
    `names_interface`: the step gives an interface its name in the pod, so that EEXIST means that the pod has the name.
    """

    rail: int
    action: str
    message: Message
    accepted_errno: int = 0
    accepted_reasons: Mapping[int, str] = {}
    names_interface: bool = False


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

    def list_rails(self, error_number: int) -> tuple[int, ...]:
        """Return the rails of the steps that were refused with this errno."""
        return tuple(sorted({refusal.step.rail for refusal in self.refusals if refusal.errno == error_number}))


def send_steps(sock: Socket, steps: Iterable[NetlinkStep]) -> None:
    """Send all steps in one system call. Raises StepsRefusedError if the kernel refused any."""
    batch = list(steps)
    try:
        sock.send([step.message for step in batch])
    except BatchError as error:
        refusals = (StepRefusal(batch[failure.index], failure.errno, failure.text) for failure in error.failures)
        counted = tuple(refusal for refusal in refusals if not _is_accepted(refusal))
        if counted:
            raise StepsRefusedError(counted) from error


def _is_accepted(refusal: StepRefusal) -> bool:
    """Return whether a refusal counts as success; log its reason if there is one."""
    step = refusal.step
    if refusal.errno in step.accepted_reasons:
        _log.warning("%s: %s", refusal, step.accepted_reasons[refusal.errno])
    return refusal.errno == step.accepted_errno or refusal.errno in step.accepted_reasons
