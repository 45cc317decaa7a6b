"""NV-IPAM's and Spiderpool's own daemons, run as processes against an API server for one node, gpu-0."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.causes.plugin_runs import find_plugin

NODE = "gpu-0"
POOLS = "nv-ipam"
"""Namespace of NV-IPAM's pools."""
SPIDERPOOL_SOCKET = "/run/spidernet/spiderpool.sock"
_SPIDERPOOL_CONFIG = f"""\
ipamUnixSocketPath: {SPIDERPOOL_SOCKET}
enableIPv4: true
enableIPv6: false
enableStatefulSet: true
clusterSubnetDefaultFlexibleIPNumber: 0
podResourceInject: {{enabled: false, namespacesExclude: [], namespacesInclude: []}}
"""
_START_SECONDS = 40


class Daemon:
    """A daemon in a mount namespace of its own, whose /run is empty, with the namespace of a pod."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    def add(self, plugin: str, config: dict[str, Any], pod: dict[str, str]) -> str:
        """Call a CNI plugin with ADD beside the daemon; return its message, empty if it succeeds."""
        names = {"K8S_POD_NAMESPACE": "default", "K8S_POD_NAME": pod["name"], "K8S_POD_UID": pod["uid"]}
        environment = {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": pod["name"],
            "CNI_NETNS": "/run/netns/pod",
            "CNI_IFNAME": "net1",
            "CNI_PATH": str(find_plugin(plugin).parent),
            "CNI_ARGS": ";".join(f"{key}={value}" for key, value in {"IgnoreUnknown": "1", **names}.items()),
            "PATH": os.environ["PATH"],
        }
        document = json.dumps({"cniVersion": "0.4.0", "name": "rail0", **config})
        argv = ["nsenter", "--mount", "--target", str(self.process.pid), str(find_plugin(plugin))]
        done = subprocess.run(
            argv, input=document, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return str(json.loads(done.stdout)["msg"]) if done.returncode else ""


@contextmanager
def run_nv_ipam(kubeconfig: Path, folder: Path) -> Iterator[Daemon]:
    """NV-IPAM's controller and the daemon of the node."""
    common = ("--kubeconfig", str(kubeconfig), "--metrics-bind-address=0", f"--ippools-namespace={POOLS}")
    for name in ("store", "bin", "conf"):
        (folder / name).mkdir()
    controller = ("--leader-elect-namespace", POOLS, "--health-probe-bind-address=0")
    socket = f"unix://{folder}/daemon.sock"
    node = (
        f"--node-name={NODE}",
        f"--bind-address={socket}",
        f"--cni-daemon-socket={socket}",
        f"--store-file={folder}/store/store",
        f"--cni-bin-dir={folder}/bin",
        f"--cni-nv-ipam-bin-file={find_plugin('nv-ipam')}",
        f"--cni-conf-dir={folder}/conf",
        f"--cni-log-file={folder}/cni.log",
        "--health-probe-bind-address=0",
    )
    with ExitStack() as stack:
        stack.enter_context(
            _run([str(find_plugin("ipam-controller")), *common, *controller], {}, folder / "controller")
        )
        argv = [str(find_plugin("ipam-node")), *common, *node]
        yield stack.enter_context(_run(argv, {}, folder / "node", folder / "daemon.sock"))


@contextmanager
def run_spiderpool(kubeconfig: Path, folder: Path) -> Iterator[Daemon]:
    """The Spiderpool agent of the node."""
    (folder / "conf.yml").write_text(_SPIDERPOOL_CONFIG)
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "SPIDERPOOL_POD_NAMESPACE": "kube-system",
        "SPIDERPOOL_POD_NAME": "agent",
        "SPIDERPOOL_NODE_NAME": NODE,
        "SPIDERPOOL_HEALTH_PORT": "15710",
        "SPIDERPOOL_METRIC_HTTP_PORT": "15711",
        "SPIDERPOOL_GOPS_LISTEN_PORT": "15712",
        "MULTUS_CLUSTER_NETWORK": "kube-system/primary",
    }
    argv = [str(find_plugin("spiderpool-agent")), "daemon", "--config-path", str(folder / "conf.yml")]
    with _run(argv, environment, folder / "agent", Path(SPIDERPOOL_SOCKET)) as daemon:
        yield daemon


@contextmanager
def _run(argv: list[str], environment: dict[str, str], log: Path, socket: Path | None = None) -> Iterator[Daemon]:
    """Run a program until the block ends; wait for its socket."""
    script = 'mount -t tmpfs none /run && mkdir -p /run/netns /run/spidernet && ip netns add pod && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *argv]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while socket and not Path(f"/proc/{process.pid}/root{socket}").exists():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        yield Daemon(process, log.parent)
    finally:
        process.terminate()
        process.wait(20)
