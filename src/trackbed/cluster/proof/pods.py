"""What a proof reads of its pods and mailboxes, and why a pod does not begin or has ended, in words."""

from __future__ import annotations

import msgspec

from trackbed.cluster.api.metadata import ObjectMetadata

_STUCK = frozenset(
    {"ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff"}
)
"""Reasons of kubelet for a container that waits and will not start by itself."""
_MOST_CHARACTERS = 300


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    state: _State = _State()
    last_state: _State = _State()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[_Condition, ...] | None = ()
    container_statuses: tuple[_Container, ...] | None = ()


class PodObject(msgspec.Struct, frozen=True):
    """A pod (v1, Pod)."""

    metadata: ObjectMetadata
    status: _Status = _Status()

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more, or is being deleted."""
        return self.status.phase in {"Succeeded", "Failed"} or self.metadata.deletion_timestamp is not None

    @property
    def states(self) -> list[_State]:
        """The states of its containers."""
        return [container.state for container in self.status.container_statuses or ()]


class MailboxObject(msgspec.Struct, frozen=True):
    """A mailbox (v1, ConfigMap)."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


def is_stuck(pod: PodObject) -> bool:
    """Return whether a pod will not start unless somebody changes something."""
    return any(state.waiting is not None and state.waiting.reason in _STUCK for state in pod.states)


def explain_wait(pod: PodObject) -> str:
    """Return why a pod does not run, after a colon; empty if nothing says it."""
    containers = pod.status.container_statuses or ()
    ends = [container.last_state.terminated for container in containers if container.last_state.terminated]
    waits = [state.waiting for state in pod.states if state.waiting]
    texts = [f"its container ended with status {end.exit_code}: {end.message or end.reason}" for end in ends]
    texts += [f"{wait.reason}: {wait.message}" if wait.message else wait.reason for wait in waits]
    texts += [condition.message for condition in pod.status.conditions or () if condition.status != "True"]
    text = next((text for text in texts if text), "")
    return f": {_shorten(text)}" if text else ""


def explain_end(pod: PodObject) -> str:
    """Return why a pod has ended."""
    if pod.metadata.deletion_timestamp is not None:
        return "its pod was deleted"
    ends = [state.terminated for state in pod.states if state.terminated]
    texts = [pod.status.message, pod.status.reason, *(f"{end.reason}, status {end.exit_code}" for end in ends)]
    return f"its pod ended: {_shorten(next((text for text in texts if text), pod.status.phase))}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
