"""What the container may do: lock memory, which registering memory for RDMA needs; on some stacks everything.

The kernel lets a process with CAP_IPC_LOCK lock memory past RLIMIT_MEMLOCK (mlock(2)). A process that is not root gets
the capability only into its bounding set, where it has no effect.

The Pod Security Standards let nothing of this be added but at level privileged: baseline's list of capabilities lacks
IPC_LOCK, and forbids privileged containers, the host's network and its folders (Kubernetes, "Pod Security Standards").
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Labels
from typing import Literal, get_args

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, listed, look, mapping, place_of
from trackbed.cluster.stacks.access import Access

Level = Literal["privileged", "baseline", "restricted"]
"""What the pods of a namespace may, by the Pod Security Standards."""
ENFORCE = "pod-security.kubernetes.io/enforce"
"""Label of a namespace that says its level."""

_PINNED = "registering memory fails where the runtime's limit of locked memory is small"
_IPC_LOCK = ("IPC_LOCK", "CAP_IPC_LOCK")


def level_of(labels: Labels[str, str]) -> Level:
    """The level of a namespace with these labels: privileged without the label; restricted where it says anything else.

    As the admission plugin PodSecurity reads it (KEP-2579). What an API server's own configuration has for namespaces
    without the label cannot be seen from here.
    """
    written = labels.get(ENFORCE, "privileged")
    return next((level for level in get_args(Level) if level == written), "restricted")


def forbidden(access: Access, level: Level) -> str | None:
    """What a pod on this stack cannot do without and may not have at this level; None if there is nothing."""
    if level == "privileged":
        return None
    needs = [
        *(["hostNetwork: true"] if access.host_network else []),
        *(["privileged: true"] if access.privileged else []),
        *(f"the host's {one.path}" for one in access.host_paths),
    ]
    return " and ".join(needs) or None


def permit(spec: Mapping, container: Mapping, access: Access, level: Level = "privileged") -> Iterator[Note]:
    """Add IPC_LOCK, and privileged where the stack needs it, if the pod's level allows it."""
    place = f"{place_of(spec, container)}.securityContext"
    if access.privileged and level == "privileged":
        yield from _privileged(container, place)
    context = look(container, "securityContext")
    if context.get("privileged") is not True:
        yield from _ipc_lock(container, place, level)
        yield from _user(look(spec, "securityContext"), context, place) if level == "privileged" else ()


def _privileged(container: Mapping, place: str) -> Iterator[Note]:
    context = look(container, "securityContext")
    breaks = "the container does not reach the devices"
    if context.get("privileged") is False or context.get("allowPrivilegeEscalation") is False:
        what = "the container is kept unprivileged, this stack needs privileged: true"
        yield Note("different", "pod-not-privileged", what, breaks, place)
    elif context.get("privileged") is None:
        mapping(container, "securityContext")["privileged"] = True
        yield Note("missing", "pod-not-privileged", "privileged: true", breaks, place)


def _ipc_lock(container: Mapping, place: str, level: Level) -> Iterator[Note]:
    capabilities = look(container, "securityContext", "capabilities")
    if any(name in (capabilities.get("drop") or ()) for name in _IPC_LOCK):
        yield Note("different", "pod-memlock-without-ipc-lock", "IPC_LOCK is dropped", _PINNED, place)
    elif any(name in (capabilities.get("add") or ()) for name in (*_IPC_LOCK, "ALL")):
        return
    elif level != "privileged":
        what = f"Pod Security level {level} allows no IPC_LOCK, and it was left out"
        breaks = f"{_PINNED}; have LimitMEMLOCK=infinity in the runtime's unit"
        yield Note("different", "pod-memlock-without-ipc-lock", what, breaks, place)
    else:
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
