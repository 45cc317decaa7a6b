"""The DaemonSet of the agent, with the capabilities and mounts that the agent needs.

It runs on every node of the cluster, as a node affinity with 12,500 names would be repeated in as many pods. On a node
without a plan the agent waits. It does not use the API server, so it has no role and no token.
docs/reference/agent-security.md gives the reasons.

There are no probes: the agent serves a unix socket, which a kubelet cannot probe, and a Python process for each probe
would cost more than the agent itself. The agent exits on errors that it cannot handle, and is restarted.

The Helm chart has the same DaemonSet: scripts/docs writes it to charts/trackbed/files/agent.yaml.
"""

from dataclasses import dataclass
from typing import Any

from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none

NAMESPACE = "trackbed-system"
NAME = "trackbed-agent"
_LABELS = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True)
class HostMount:
    """A folder of the host, mounted at the same path in the agent unless `mount_path` is set."""

    name: str
    path: str
    type: str = "DirectoryOrCreate"
    mount_path: str | None = None
    read_only: bool = False
    propagation: str | None = None


MOUNTS = (
    # The node's plan. The folder is mounted instead of the file, as a mounted file would still be the old one after the
    # host replaces it.
    HostMount("plan", "/etc/trackbed", read_only=True),
    # The journal of pods' addresses and VFs, which must survive restarts of the agent.
    HostMount("state", "/var/lib/trackbed/agent"),
    # The agent's socket for requests of the CNI executable.
    HostMount("socket", "/run/trackbed"),
    # Network namespaces of pods. Runtimes mount them after the agent starts, hence the propagation.
    HostMount("netns", "/var/run/netns", read_only=True, propagation="HostToContainer"),
    # CDI specifications, from which the runtime adds device files and environment variables to containers.
    HostMount("cdi", "/var/run/cdi"),
    # The kubelet's registration socket, and the agent's device plugin sockets, one for each rail.
    HostMount("device-plugins", "/var/lib/kubelet/device-plugins", "Directory"),
    # The kubelet's PodResources socket, which lists the devices of pods.
    HostMount("pod-resources", "/var/lib/kubelet/pod-resources", "Directory", read_only=True),
    # The folder of CNI plugins, where the agent installs its CNI executable.
    HostMount("cni-bin", "/opt/cni/bin"),
    # The folder of CNI configurations, where the agent adds its plugin to that of the primary network.
    HostMount("cni-conf", "/etc/cni/net.d"),
    # IPv6 sysctls of a port that returns from a pod: netlink cannot set them, and /proc/sys is read-only in containers.
    HostMount("sysctls", "/proc/sys/net", "Directory", mount_path="/host/proc/sys/net"),
    # The traffic class of RDMA devices that move into pods: a container's own sysfs is read-only and has no configfs.
    HostMount("sysfs", "/sys", "Directory", mount_path="/host/sys", propagation="HostToContainer"),
    # Shows whether the node has rdma_cm for pods; the agent cannot open the devices. The folder is created on a node
    # without RDMA, which is harmless in devtmpfs, whereas the effect of type "" depends on the runtime.
    HostMount("infiniband", "/dev/infiniband", read_only=True),
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

_REMOVE_COMMAND = ("trackbed", "agent", "remove-cni", "/opt/cni/bin", "--networks", "/etc/cni/net.d")

CAPABILITIES = (
    "NET_ADMIN",  # to set interfaces, addresses, routes, rules, RDMA devices and net sysctls, on the host and in pods
    "NET_RAW",  # to probe whether an address is in use (ARP, neighbour solicitation)
    "SYS_ADMIN",  # to enter pods' network namespaces (setns(2))
)


def build_namespace() -> Manifest:
    """Return the agent's namespace, at Pod Security level privileged, as the agent uses hostNetwork and host paths."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return build_manifest("v1", "Namespace", NAMESPACE, labels=labels)


def build_service_account() -> Manifest:
    """Return the agent's ServiceAccount, which has no rights and mounts no token."""
    return build_manifest("v1", "ServiceAccount", NAME, NAMESPACE, automountServiceAccountToken=False)


def build_daemon_set(image: str) -> Manifest:
    """Return the DaemonSet of the agent.

    An update replaces a tenth of the agents at a time. Meanwhile pods that start on these nodes wait; others run on.
    """
    spec = {
        "selector": {"matchLabels": _LABELS},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": _LABELS}, "spec": _build_pod_spec(image)},
    }
    return build_manifest("apps/v1", "DaemonSet", NAME, NAMESPACE, labels=_LABELS, spec=spec)


def build_removal_patch(image: str, namespace: str) -> Manifest:
    """Return a patch of the DaemonSet that uninstalls the CNI executable on all nodes, to be applied before deletion.

    Otherwise the runtime would still call the executable after the agent is gone, and no pod of the node could start or
    stop. A pod of the patched DaemonSet becomes ready when its node is cleaned up. All nodes are cleaned up at once.
    """
    container = _build_container(image)
    mounts = [mount for mount in container["volumeMounts"] if mount["name"] in {"cni-bin", "cni-conf"}]
    fields = {field: container[field] for field in ("image", "imagePullPolicy", "securityContext", "resources")}
    init_container = {**fields, "name": "leave", "command": list(_REMOVE_COMMAND), "volumeMounts": mounts}
    pod = {
        "initContainers": [init_container],
        "containers": [{"name": "agent", "command": [*_REMOVE_COMMAND, "--stay"]}],
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    spec = {"updateStrategy": strategy, "template": {"spec": pod}}
    return build_manifest("apps/v1", "DaemonSet", NAME, namespace, spec=spec)


def _build_pod_spec(image: str) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 15,  # running requests get 10 seconds of these
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"type": "spc_t"},  # other SELinux types may not access folders of the host
        },
        "containers": [_build_container(image)],
        "volumes": [{"name": mount.name, "hostPath": {"path": mount.path, "type": mount.type}} for mount in MOUNTS],
    }


def _build_container(image: str) -> dict[str, Any]:
    return {
        "name": "agent",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(_COMMAND),
        # There is no CPU limit, as starting pods wait for the agent, and a throttled agent would delay all of them.
        "resources": {"requests": {"cpu": "50m", "memory": "80Mi"}, "limits": {"memory": "200Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        "volumeMounts": [_build_volume_mount(mount) for mount in MOUNTS],
    }


def _build_volume_mount(mount: HostMount) -> dict[str, Any]:
    return drop_none(
        name=mount.name,
        mountPath=mount.mount_path or mount.path,
        readOnly=mount.read_only or None,
        mountPropagation=mount.propagation,
    )
