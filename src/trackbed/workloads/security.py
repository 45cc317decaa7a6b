"""What the container may do: lock memory, which registering memory for RDMA needs; on some stacks everything.

The kernel lets a process with CAP_IPC_LOCK lock memory past RLIMIT_MEMLOCK (mlock(2)). A process that is not root gets
the capability only into its bounding set, where it has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.workloads.note import Note
from trackbed.workloads.template import Mapping, listed, look, mapping, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.stacks.access import Access

_PINNED = "registering memory fails where the runtime's limit of locked memory is small"
_IPC_LOCK = ("IPC_LOCK", "CAP_IPC_LOCK")


def permit(spec: Mapping, container: Mapping, access: Access) -> Iterator[Note]:
    """Add IPC_LOCK, and privileged where the stack needs it."""
    place = f"{place_of(spec, container)}.securityContext"
    if access.privileged:
        yield from _privileged(container, place)
    context = look(container, "securityContext")
    if context.get("privileged") is not True:
        yield from _ipc_lock(container, place)
        yield from _user(look(spec, "securityContext"), context, place)


def _privileged(container: Mapping, place: str) -> Iterator[Note]:
    context = look(container, "securityContext")
    breaks = "the container does not reach the devices"
    if context.get("privileged") is False or context.get("allowPrivilegeEscalation") is False:
        what = "the container is kept unprivileged, this stack needs privileged: true"
        yield Note("different", "pod-not-privileged", what, breaks, place)
    elif context.get("privileged") is None:
        mapping(container, "securityContext")["privileged"] = True
        yield Note("missing", "pod-not-privileged", "privileged: true", breaks, place)


def _ipc_lock(container: Mapping, place: str) -> Iterator[Note]:
    capabilities = look(container, "securityContext", "capabilities")
    if any(name in (capabilities.get("drop") or ()) for name in _IPC_LOCK):
        yield Note("different", "pod-memlock-without-ipc-lock", "IPC_LOCK is dropped", _PINNED, place)
    elif not any(name in (capabilities.get("add") or ()) for name in (*_IPC_LOCK, "ALL")):
        listed(mapping(container, "securityContext", "capabilities"), "add").append("IPC_LOCK")
        yield Note("missing", "pod-memlock-without-ipc-lock", "capability IPC_LOCK", _PINNED, place)


def _user(pod: Mapping, context: Mapping, place: str) -> Iterator[Note]:
    """The container's own word on its user counts before the pod's."""
    user, no_root = (context.get(key, pod.get(key)) for key in ("runAsUser", "runAsNonRoot"))
    if user not in {None, 0} or no_root is True:
        what = (
            "IPC_LOCK has no effect for a user other than root"
            if user is None
            else f"IPC_LOCK has no effect for user {user}"
        )
        yield Note("different", "pod-ipc-lock-inert-for-non-root", what, f"{_PINNED}; raise that limit", place)
