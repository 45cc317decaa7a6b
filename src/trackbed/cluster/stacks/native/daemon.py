"""The agent on every node: a DaemonSet that may do what the agent does, and sees of the host what it needs.

It runs on every node, as no list of 12,500 names fits into each of so many pods; on one whose plan is not there yet it
waits. It asks no API server, so it has no role and no token. docs/reference/agent-security.md gives the reasons.

No probes: the agent serves a unix socket, which a kubelet cannot ask, and starting a Python for each question would
cost more than the agent itself. It ends when something it cannot survive happens, and is started again.

The chart's DaemonSet is this one: scripts/docs writes it to charts/trackbed/files/agent.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trackbed.cluster.stacks.objects import Manifest, manifest, without_none

NAMESPACE = "trackbed-system"
NAME = "trackbed-agent"
_LABELS = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host, at the same path in the agent unless `at` says another."""

    name: str
    path: str
    type: str = "DirectoryOrCreate"
    at: str | None = None
    read_only: bool = False
    propagation: str | None = None


MOUNTS = (
    # The node's plan. The folder, not the file: a file replaced by a new one would stay the old one in here.
    Mount("plan", "/etc/trackbed", read_only=True),
    # The journal: who has which address and VF, through restarts of the agent.
    Mount("state", "/var/lib/trackbed/agent"),
    # The socket on which the CNI executable asks.
    Mount("socket", "/run/trackbed"),
    # Pods' network namespaces. Runtimes mount each one there later, hence the propagation.
    Mount("netns", "/var/run/netns", read_only=True, propagation="HostToContainer"),
    # Device files and variables for pods' containers, which the runtime reads.
    Mount("cdi", "/var/run/cdi"),
    # Sockets: the kubelet's, to register at, and the agent's, one for each rail.
    Mount("device-plugins", "/var/lib/kubelet/device-plugins", "Directory"),
    # The kubelet's socket that tells which rails a pod was given.
    Mount("pod-resources", "/var/lib/kubelet/pod-resources", "Directory", read_only=True),
    # The CNI executable is put there ...
    Mount("cni-bin", "/opt/cni/bin"),
    # ... and the primary network's configuration names it.
    Mount("cni-conf", "/etc/cni/net.d"),
    # IPv6 settings of a port that comes back from a pod: netlink cannot write them, and /proc/sys is read-only in here.
    Mount("sysctls", "/proc/sys/net", "Directory", at="/host/proc/sys/net"),
    # Whether there is an RDMA CM to give to pods. A node without RDMA has no such folder: an empty one in devtmpfs does
    # no harm, whereas with type "" it is the runtime's choice what happens. No device in it can be opened from here.
    Mount("infiniband", "/dev/infiniband", read_only=True),
)

_COMMAND = (
    *("trackbed", "agent", "run"),
    *("--plan", "/etc/trackbed/node.json"),
    *("--state", "/var/lib/trackbed/agent"),
    *("--socket", "/run/trackbed/agent.sock"),
    *("--kubelet", "/var/lib/kubelet"),
    *("--cni-bin", "/opt/cni/bin"),
    *("--cni-conf", "/etc/cni/net.d"),
)

_LEAVE = ("trackbed", "agent", "remove-cni", "/opt/cni/bin", "--networks", "/etc/cni/net.d")

CAPABILITIES = (
    "NET_ADMIN",  # interfaces, addresses, routes and rules, on the host and in pods; RDMA devices; sysctls below net
    "NET_RAW",  # asks the network whether an address is taken (ARP, neighbour solicitation)
    "SYS_ADMIN",  # setns(2) into pods' network namespaces
)


def namespace() -> Manifest:
    """The agent's namespace: pods there may use the host's network and folders (Pod Security Standards)."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return manifest("v1", "Namespace", NAMESPACE, labels=labels)


def service_account() -> Manifest:
    """An account that nothing is allowed to and no token is made for."""
    return manifest("v1", "ServiceAccount", NAME, NAMESPACE, automountServiceAccountToken=False)


def daemon_set(image: str) -> Manifest:
    """The agent. A new version comes to a tenth of the nodes at a time: only pods that start meanwhile wait."""
    spec = {
        "selector": {"matchLabels": _LABELS},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": _LABELS}, "spec": _pod(image)},
    }
    return manifest("apps/v1", "DaemonSet", NAME, NAMESPACE, labels=_LABELS, spec=spec)


def leaving(image: str, namespace: str) -> Manifest:
    """What makes agents take themselves out of their hosts' way, to be applied over the DaemonSet before it is deleted.

    Without an agent the runtime would still call the CNI executable, and no pod of the node could start or end. A pod
    of this DaemonSet is ready once its node is left, at all nodes at once.
    """
    left = _container(image)
    mounts = [one for one in left["volumeMounts"] if one["name"] in {"cni-bin", "cni-conf"}]
    kept = {field: left[field] for field in ("image", "imagePullPolicy", "securityContext", "resources")}
    first = {**kept, "name": "leave", "command": list(_LEAVE), "volumeMounts": mounts}
    pod = {"initContainers": [first], "containers": [{"name": "agent", "command": [*_LEAVE, "--stay"]}]}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    spec = {"updateStrategy": strategy, "template": {"spec": pod}}
    return manifest("apps/v1", "DaemonSet", NAME, namespace, spec=spec)


def _pod(image: str) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 15,  # requests under way get 10 to end
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"type": "spc_t"},  # where SELinux is on, other types may not touch the host's folders
        },
        "containers": [_container(image)],
        "volumes": [{"name": one.name, "hostPath": {"path": one.path, "type": one.type}} for one in MOUNTS],
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": "agent",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(_COMMAND),
        # No limit of CPU: pods wait for the agent while they start, and a throttled one delays them all.
        "resources": {"requests": {"cpu": "50m", "memory": "80Mi"}, "limits": {"memory": "200Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        "volumeMounts": [_mounted(one) for one in MOUNTS],
    }


def _mounted(one: Mount) -> dict[str, Any]:
    return without_none(
        name=one.name,
        mountPath=one.at or one.path,
        readOnly=one.read_only or None,
        mountPropagation=one.propagation,
    )
