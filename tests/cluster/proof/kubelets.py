"""Kubelets of a few nodes, as far as a proof needs them: each pod is a process in namespaces of its own.

The command, the environment and the mounted files are the pod's; its account has a token of the API server. A pod is
wired to one bridge for each rail, with an address of the rail's range, as an IPAM would give it. The way to the API
server is a socket that listens in the pod's network.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.namespaces import fresh_netns
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.proof.objects import PROOF
from trackbed.kernel.netlink.netns import enter_netns

FOLDER, ACCOUNT = "/run/trackbed-proof", "/run/secrets/kubernetes.io/serviceaccount"
MOUNT = f"""set -e
mount -t tmpfs none /run
mkdir -p {FOLDER} {ACCOUNT}
cp "$0"/payload {FOLDER}; cp "$0"/token "$0"/ca.crt "$0"/namespace {ACCOUNT}
exec "$@"
"""
POLL_SECONDS = 0.05


@dataclass
class Kubelets:
    """Nodes with two rails each, and the pods that run on them."""

    client: BlockingClient
    kubeconfig: Path
    folder: Path
    namespace: str
    rails: Sequence[str]
    """The first three octets of each rail's addresses."""
    leaves: int
    lacking: dict[str, int] = field(default_factory=dict)
    """Node -> a rail that its pods are not given."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The containers, by the names of their pods."""
    start: dict[str, Callable[[], subprocess.Popen[bytes]]] = field(default_factory=dict)
    """What starts a container, in the pod's network, whose addresses stay."""
    uids: dict[str, str] = field(default_factory=dict)
    """UIDs of the pods whose containers run: another pod may have the same name."""
    holds: bool = False
    """Whether containers that died are left alone for now."""
    numbers: Iterator[int] = field(default_factory=partial(count, 1))
    """Numbers of pods, by which each has addresses that no other one had."""
    stack: ExitStack = field(default_factory=ExitStack)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Start pods as they are created, tell how they end, and kill those that are deleted."""
        while not self.stop.wait(POLL_SECONDS):
            pods = {
                pod["metadata"]["name"]: pod for pod in self.client.list("v1", "Pod", self.namespace, selector=PROOF)
            }
            present = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
            for name in [name for name in self.processes if present.get(name) != self.uids[name]]:
                process = self.processes.pop(name)
                process.kill()
                process.wait()
            for name, pod in pods.items():
                if name not in self.processes:
                    self._prepare(name, pod)
                    self._set_phase(pod, "Running")
                elif self.processes[name].poll() == 0 and pod["status"]["phase"] == "Running":
                    self._set_phase(pod, "Succeeded")
                elif self.processes[name].poll() and pod["spec"]["restartPolicy"] == "OnFailure" and not self.holds:
                    self.processes[name] = self.start[name]()

    def _set_phase(self, pod: dict[str, Any], phase: str) -> None:
        """Tell the phase of a pod, unless it was deleted meanwhile."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/status"
        try:
            self.client.run(self.client.dynamic.client.merge(path, {"status": {"phase": phase}}))
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def _prepare(self, name: str, pod: dict[str, Any]) -> None:
        """Make the network and the files of a pod, and start its container."""
        number = next(self.numbers)
        place = self.folder / f"{name}.{number}"
        place.mkdir()
        self._write_files(place, pod["spec"])
        node = find_node(pod)
        network = self.stack.enter_context(fresh_netns())
        self._wire(network, number, node)
        container = pod["spec"]["containers"][0]
        port = self._open_way(network)
        environment = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        environment |= {"PATH": os.environ["PATH"], "KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        environment["KUBERNETES_SERVICE_PORT"] = str(port)
        enter = ["nsenter", f"--net={locate(network)}", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        argv = [*enter, "sh", "-c", MOUNT, str(place), *container["command"]]

        def start() -> subprocess.Popen[bytes]:
            with (place / "log").open("ab") as log:
                return subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        self.start[name], self.uids[name] = start, pod["metadata"]["uid"]
        self.processes[name] = start()

    def _write_files(self, place: Path, spec: dict[str, Any]) -> None:
        """Write what is mounted: the program, and the credentials of the service account."""
        program = self.client.get("v1", "ConfigMap", spec["volumes"][0]["configMap"]["name"], self.namespace)
        (place / "payload").write_bytes(b64decode(program["binaryData"]["payload"]))
        cluster = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        (place / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{spec['serviceAccountName']}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.client.run(self.client.dynamic.client.create(path, request))["status"]["token"]
        (place / "token").write_text(token)
        (place / "namespace").write_text(self.namespace)

    def _wire(self, network: int, number: int, node: str) -> None:
        """Give a pod an interface and an address on each rail."""
        run_ip(network, "link", "set", "lo", "up")
        for rail, octets in enumerate(self.rails):
            if self.lacking.get(node) == rail:
                continue
            end = f"p{number}r{rail}"
            peer = ("type", "veth", "peer", "name", f"net{rail + 1}", "mtu", "9000", "netns", locate(network))
            run_ip(self.leaves, "link", "add", end, "mtu", "9000", *peer)
            run_ip(self.leaves, "link", "set", end, "up", "master", f"rail{rail}")
            run_ip(network, "addr", "add", f"{octets}.{number}/24", "dev", f"net{rail + 1}")
            run_ip(network, "link", "set", f"net{rail + 1}", "up")

    def _open_way(self, network: int) -> int:
        """Return a port of a pod's loopback that leads to the API server."""
        server = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        target = int(server.rpartition(":")[2])
        with enter_netns(network):
            listener = self.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        thread = threading.Thread(target=accept_connections, args=(listener, target))
        self.stack.callback(thread.join)
        self.stack.callback(listener.shutdown, socket.SHUT_RDWR)
        thread.start()
        return int(listener.getsockname()[1])


def find_node(pod: dict[str, Any]) -> str:
    """Return the node that a pod's affinity asks for."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def locate(network: int) -> str:
    return f"/proc/{os.getpid()}/fd/{network}"


def run_ip(network: int, *words: str) -> None:
    subprocess.run(["nsenter", f"--net={locate(network)}", "ip", *words], check=True, timeout=60)


def accept_connections(listener: socket.socket, port: int) -> None:
    """Carry bytes between each connection and a port of this machine, until the listener is shut down."""
    carriers = []
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            break
        carriers.append(threading.Thread(target=carry, args=(client, socket.create_connection(("127.0.0.1", port)))))
        carriers[-1].start()
    for carrier in carriers:
        carrier.join()


def carry(client: socket.socket, server: socket.socket) -> None:
    """Carry bytes both ways until one side ends."""
    others = {client: server, server: client}
    with client, server, suppress(OSError):
        while True:
            for source in select.select(list(others), [], [])[0]:
                part = source.recv(1 << 16)
                if not part:
                    return
                others[source].sendall(part)


@contextmanager
def run_kubelets(
    client: BlockingClient, kubeconfig: Path, folder: Path, namespace: str, rails: Sequence[str]
) -> Iterator[Kubelets]:
    """Run pods of a namespace until the end of the block."""
    with fresh_netns() as leaves:
        for rail in range(len(rails)):
            run_ip(leaves, "link", "add", f"rail{rail}", "mtu", "9000", "type", "bridge")
            run_ip(leaves, "link", "set", f"rail{rail}", "up")
        kubelets = Kubelets(client, kubeconfig, folder, namespace, rails, leaves)
        thread = threading.Thread(target=kubelets.run)
        with kubelets.stack:
            thread.start()
            try:
                yield kubelets
            finally:
                kubelets.stop.set()
                thread.join()
                for process in kubelets.processes.values():
                    process.kill()
                    process.wait()
