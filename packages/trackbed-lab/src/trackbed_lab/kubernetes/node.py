"""What makes an emulated server a node: units, configurations and certificates below its /etc, as text.

containerd and kubelet are started at every boot; what they keep lives through reboots. Images are on the disk before
the first boot (module preload). Pods get an address by the plugin `bridge` from their node's own range; the other
nodes' ranges are routed over the cluster's network, as operators do who have no overlay. kubelet answers on the
server's own loopback alone: who may log in to this machine is not who may run commands in a node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trackbed.host.steps import kubelet
from trackbed_lab.vm.furnish import ServerFile
from trackbed_lab.vm.machine import build_cluster_mac

CLUSTER = "cluster0"
"""The interface in the cluster's network."""

GATEWAY = "192.168.250.1"
"""Where nodes send what is for a Service (module gateway)."""
SERVICES, SERVICE = "10.0.0.0/24", "10.0.0.1"
"""The addresses of Services, and that of `kubernetes`, by which pods ask the API server."""

PAUSE = "lab.trackbed.dev/pause:1"
"""The image of every pod's first container."""

CONFLIST = "etc/cni/net.d/10-lab.conflist"
_KUBECONFIG, _CONFIG = "etc/kubernetes/kubelet.kubeconfig", "etc/kubernetes/kubelet.yaml"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: the `number`th of `count`; its programs lie on this machine, which it sees."""

    name: str
    number: int
    count: int
    programs: Path
    joined: bool = True
    """Whether it joins the cluster at its first boot; else at the next one after somebody has run JOIN in it."""


def address(number: int) -> str:
    """A node's address in the cluster's network."""
    return f"192.168.250.{number + 10}"


def pod_range(number: int) -> str:
    """The addresses of a node's pods."""
    return f"10.244.{number}.0/24"


def files(node: Node, kubeconfig: str) -> Mapping[str, ServerFile]:
    """All of it, by path."""
    texts = {
        "etc/systemd/network/05-cluster.link": _LINK.format(mac=build_cluster_mac(node.number), name=CLUSTER),
        "etc/systemd/network/05-cluster.network": _network(node),
        "etc/systemd/system/containerd.service": _CONTAINERD_UNIT.format(programs=node.programs),
        "etc/systemd/system/kubelet.service": _KUBELET_UNIT.format(
            programs=node.programs,
            name=node.name,
            address=address(node.number),
            config=_CONFIG,
            read=kubelet.CONFIG,
            kubeconfig=_KUBECONFIG,
            drop_ins=kubelet.FOLDER,
        ),
        "etc/containerd/config.toml": _CONTAINERD.format(pause=PAUSE, programs=node.programs),
        _CONFIG: _KUBELET,
        "etc/sysctl.d/80-node.conf": _SYSCTLS,
        CONFLIST: json.dumps(_conflist(node), indent=2) + "\n",
        f"{kubelet.FOLDER[1:]}/.keep": "",
    }
    if node.joined:
        texts[_STARTED] = _STARTS
    return {**{path: ServerFile(text) for path, text in texts.items()}, _KUBECONFIG: ServerFile(kubeconfig, 0o600)}


def _network(node: Node) -> str:
    ways = {pod_range(other): address(other) for other in range(node.count) if other != node.number}
    ways[SERVICES] = GATEWAY
    routes = "".join(f"[Route]\nDestination={to}\nGateway={by}\n" for to, by in ways.items())
    return _NETWORK.format(name=CLUSTER, address=address(node.number)) + routes


def _conflist(node: Node) -> dict[str, object]:
    pool = {"type": "host-local", "ranges": [[{"subnet": pod_range(node.number)}]], "routes": [{"dst": "0.0.0.0/0"}]}
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
_STARTED = "etc/systemd/system/multi-user.target.d/cluster.conf"
_STARTS = "[Unit]\nWants=containerd.service kubelet.service\n"
JOIN = f"mkdir -p /{Path(_STARTED).parent} && printf '{_STARTS}' > /{_STARTED} && sync /{_STARTED}"
"""A script that has containerd and kubelet started at every boot to come."""

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

# kubelet does not sync the certificate that it makes itself; on empty files, left by a power cut, it never starts.
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
