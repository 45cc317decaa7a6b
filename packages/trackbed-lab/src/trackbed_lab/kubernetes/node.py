"""The files that make an emulated server a node: units, configurations and credentials below its /etc.

containerd and kubelet start at every boot; their state persists across reboots. Images are on the disk before the first
boot (module preload). The plugin `bridge` gives pods an address from their node's range; the ranges of other nodes are
routed over the cluster's network, without an overlay. kubelet listens only on the server's loopback, so that users of
this machine cannot run commands in a node.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trackbed.host.steps import kubelet
from trackbed_lab.kubernetes import bare_node
from trackbed_lab.vm.furnish import ServerFile
from trackbed_lab.vm.machine import build_cluster_mac

CLUSTER_INTERFACE = "cluster0"
"""A node's interface in the cluster's network."""

GATEWAY = "192.168.250.1"
"""The nodes' next hop to Services (module gateway)."""
SERVICE_RANGE, KUBERNETES_SERVICE = "10.0.0.0/24", "10.0.0.1"
"""The range of Services, and the address of service `kubernetes`, which pods use for the API server."""

PAUSE_IMAGE = "lab.trackbed.dev/pause:1"
"""The image of every pod's first container."""

CONFLIST = "etc/cni/net.d/10-lab.conflist"
_KUBECONFIG, _CONFIG = "etc/kubernetes/kubelet.kubeconfig", "etc/kubernetes/kubelet.yaml"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node. `number` is its position among `count`; `programs` is a folder of this machine that all nodes share."""

    name: str
    number: int
    count: int
    programs: Path
    joined: bool = True
    """Whether it joins the cluster at its first boot; if not, at the next boot after JOIN was run in it."""
    is_bare: bool = False
    """Whether its root has no Python."""


def get_address(number: int) -> str:
    """Return a node's address in the cluster's network."""
    return f"192.168.250.{number + 10}"


def get_pod_range(number: int) -> str:
    """Return the range of a node's pods."""
    return f"10.244.{number}.0/24"


def render_files(node: NodeSpec, kubeconfig: str) -> Mapping[str, ServerFile]:
    """Return a node's files by path below its root."""
    texts = {
        "etc/systemd/network/05-cluster.link": _LINK.format(mac=build_cluster_mac(node.number), name=CLUSTER_INTERFACE),
        "etc/systemd/network/05-cluster.network": _render_network(node),
        "etc/systemd/system/containerd.service": _CONTAINERD_UNIT.format(programs=node.programs),
        "etc/systemd/system/kubelet.service": _KUBELET_UNIT.format(
            programs=node.programs,
            name=node.name,
            address=get_address(node.number),
            config=_CONFIG,
            read=kubelet.CONFIG,
            kubeconfig=_KUBECONFIG,
            drop_ins=kubelet.FOLDER,
        ),
        "etc/containerd/config.toml": _CONTAINERD.format(pause=PAUSE_IMAGE, programs=node.programs),
        _CONFIG: _KUBELET,
        "etc/sysctl.d/80-node.conf": _SYSCTLS,
        CONFLIST: json.dumps(_build_conflist(node), indent=2) + "\n",
        f"{kubelet.FOLDER[1:]}/.keep": "",
    }
    if node.joined:
        texts[_DROP_IN] = _WANTS
    files = {path: ServerFile(text) for path, text in texts.items()}
    return {**files, **(bare_node.render_files() if node.is_bare else {}), _KUBECONFIG: ServerFile(kubeconfig, 0o600)}


def _render_network(node: NodeSpec) -> str:
    """Return networkd's configuration of the cluster's network, with routes to other nodes' pods and to Services."""
    gateways = {get_pod_range(other): get_address(other) for other in range(node.count) if other != node.number}
    gateways[SERVICE_RANGE] = GATEWAY
    routes = "".join(f"[Route]\nDestination={subnet}\nGateway={gateway}\n" for subnet, gateway in gateways.items())
    return _NETWORK.format(name=CLUSTER_INTERFACE, address=get_address(node.number)) + routes


def _build_conflist(node: NodeSpec) -> dict[str, object]:
    pool = {
        "type": "host-local",
        "ranges": [[{"subnet": get_pod_range(node.number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": pool}
    return {"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]}


_LINK = "[Match]\nMACAddress={mac}\nDriver=virtio_net\n[Link]\nName={name}\n"
_NETWORK = """[Match]
Name={name}
[Network]
Address={address}/24
LinkLocalAddressing=no
IPv6AcceptRA=no
IPForward=yes
"""

_SYSCTLS = "fs.inotify.max_user_instances = 8192\nfs.inotify.max_user_watches = 1048576\n"
_DROP_IN = "etc/systemd/system/multi-user.target.d/cluster.conf"
_WANTS = "[Unit]\nWants=containerd.service kubelet.service\n"
JOIN = f"mkdir -p /{Path(_DROP_IN).parent} && printf '{_WANTS}' > /{_DROP_IN} && sync /{_DROP_IN}"
"""A script that enables containerd and kubelet from the next boot on."""

_CONTAINERD_UNIT = """[Unit]
Description=containerd
After=systemd-networkd.service
Before=kubelet.service
StartLimitIntervalSec=0

[Service]
Type=notify
Environment=PATH={programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
ExecStart={programs}/containerd
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
TimeoutStartSec=120
Environment=GOGC=400
LimitNOFILE=infinity
OOMScoreAdjust=-999
"""

# kubelet does not sync the certificate that it generates; it cannot start while a power cut has left the file empty.
_KUBELET_UNIT = """[Unit]
Description=kubelet
After=containerd.service
Requires=containerd.service
StartLimitIntervalSec=0

[Service]
ExecStartPre=cp /{config} {read}
ExecStartPre=-find /var/lib/kubelet/pki -type f -empty -delete
ExecStart={programs}/kubelet --config={read} --config-dir={drop_ins} \\
    --kubeconfig=/{kubeconfig} --hostname-override={name} --node-ip={address} --v=1
Environment=GOGC=400
Restart=always
RestartSec=1
"""

_CONTAINERD = """version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  enable_unprivileged_icmp = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin", "{programs}"]
  conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.nri.v1.nri']
  plugin_request_timeout = "120s" # 2 s by default; DRA drivers run CNI plugins meanwhile, which are slow here
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = true
"""

_KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
nodeStatusUpdateFrequency: 5s
resolvConf: /dev/null
"""
