"""Security context of a container with rails: RDMA needs IPC_LOCK to lock memory; some stacks need `privileged`.

The kernel lets a process with CAP_IPC_LOCK lock memory beyond RLIMIT_MEMLOCK (mlock(2)). A process that is not root
gets the capability only in its bounding set, where it has no effect.

The Pod Security Standards allow none of this below level privileged: the baseline capabilities lack IPC_LOCK, and
baseline forbids privileged containers, hostNetwork and hostPath volumes (Kubernetes, "Pod Security Standards").
"""

from collections.abc import Iterator
from collections.abc import Mapping as Labels
from typing import Literal, get_args

from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import (
    Mapping,
    ensure_list,
    ensure_mapping,
    locate_container,
    read_list,
    read_mapping,
)
from trackbed.cluster.stacks.access import Access

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]
"""Level of a namespace in the Pod Security Standards."""
ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"
"""Label of a namespace with its Pod Security level."""

_LOCKING_FAILS = "registering memory fails where the runtime's limit of locked memory is small"
_IPC_LOCK = ("IPC_LOCK", "CAP_IPC_LOCK")


def read_pod_security_level(namespace_labels: Labels[str, str]) -> PodSecurityLevel:
    """Return the Pod Security level of a namespace: privileged without the label, restricted if it is invalid.

    The admission plugin PodSecurity does the same (KEP-2579), except that an API server may be configured with another
    default.
    """
    label = namespace_labels.get(ENFORCE_LABEL, "privileged")
    return next((level for level in get_args(PodSecurityLevel) if level == label), "restricted")


def describe_forbidden(access: Access, pod_security_level: PodSecurityLevel) -> str | None:
    """Return the pod settings that the stack requires but the level forbids, joined by "and"; None without any."""
    if pod_security_level == "privileged":
        return None
    needs = [
        *(["hostNetwork: true"] if access.host_network else []),
        *(["privileged: true"] if access.privileged else []),
        *(f"the host's {host_path.path}" for host_path in access.host_paths),
    ]
    return " and ".join(needs) or None


def allow_memory_locking(
    spec: Mapping, container: Mapping, access: Access, pod_security_level: PodSecurityLevel = "privileged"
) -> Iterator[Note]:
    """Add IPC_LOCK, and privileged if the stack needs it, as far as the level allows them; yield notes."""
    path = f"{locate_container(spec, container)}.securityContext"
    if access.privileged and pod_security_level == "privileged":
        yield from _set_privileged(container, path)
    context = read_mapping(container, "securityContext")
    if context.get("privileged") is not True:
        yield from _add_ipc_lock(container, path, pod_security_level)
        yield from (
            _check_ipc_lock_user(read_mapping(spec, "securityContext"), context, path)
            if pod_security_level == "privileged"
            else ()
        )


def _set_privileged(container: Mapping, path: str) -> Iterator[Note]:
    context = read_mapping(container, "securityContext")
    breaks = "the container does not reach the devices"
    if context.get("privileged") is False or context.get("allowPrivilegeEscalation") is False:
        yield Note(
            "different",
            "pod-not-privileged",
            "the container is kept unprivileged, this stack needs privileged: true",
            breaks,
            path,
        )
    elif context.get("privileged") is None:
        ensure_mapping(container, "securityContext")["privileged"] = True
        yield Note("missing", "pod-not-privileged", "privileged: true", breaks, path)


def _add_ipc_lock(container: Mapping, path: str, pod_security_level: PodSecurityLevel) -> Iterator[Note]:
    capabilities = read_mapping(container, "securityContext", "capabilities")
    if any(name in read_list(capabilities, "drop") for name in _IPC_LOCK):
        yield Note("different", "ipc-lock-missing", "IPC_LOCK is dropped", _LOCKING_FAILS, path)
    elif any(name in read_list(capabilities, "add") for name in ("IPC_LOCK", "ALL")):
        return
    elif "CAP_IPC_LOCK" in read_list(capabilities, "add"):
        difference = "CAP_IPC_LOCK is added, and Kubernetes names it IPC_LOCK; write that"
        breaks = f"some runtimes refuse the container; others ignore the name, and {_LOCKING_FAILS}"
        yield Note("different", "capability-prefix", difference, breaks, path)
    elif pod_security_level != "privileged":
        yield Note(
            "different",
            "ipc-lock-missing",
            f"Pod Security level {pod_security_level} allows no IPC_LOCK, and it was left out",
            f"{_LOCKING_FAILS}; have LimitMEMLOCK=infinity in the runtime's unit",
            path,
        )
    else:
        ensure_list(ensure_mapping(container, "securityContext", "capabilities"), "add").append("IPC_LOCK")
        yield Note("missing", "ipc-lock-missing", "capability IPC_LOCK", _LOCKING_FAILS, path)


def _check_ipc_lock_user(pod_context: Mapping, container_context: Mapping, path: str) -> Iterator[Note]:
    """Yield a note if the container does not run as root, as IPC_LOCK then has no effect.

    The container's security context overrides the pod's.
    """
    user, no_root = (container_context.get(key, pod_context.get(key)) for key in ("runAsUser", "runAsNonRoot"))
    is_root = user is None or user == 0
    if not is_root or no_root is True:
        yield Note(
            "different",
            "ipc-lock-inert",
            "IPC_LOCK has no effect for a user other than root"
            if user is None
            else f"IPC_LOCK has no effect for user {user}",
            f"{_LOCKING_FAILS}; raise that limit",
            path,
        )
