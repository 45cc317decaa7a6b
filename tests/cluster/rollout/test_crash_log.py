"""The log of a container that ended, read through a real API server from a kubelet that serves nothing else."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.gateway import PODS

from tests.cluster.objects import NAMESPACE, daemon_set, pod, put
from trackbed.cluster.causes.catalogue import load_causes
from trackbed.cluster.rollout.gates import check_gate
from trackbed.cluster.stacks.stack import ROLLED_OUT, Wait

LOGS = {
    "shared": "2023/09/08 17:43:19 Exiting.. can not change : incorrect RDMA subsystem network namespace\n",
    "nodes": (
        'error creating new device: "missing RDMA device spec for device 0000:16:00.0, '
        'RDMA device \\"rdma_cm\\" not found"\n\n'
    ),
    "odd": "starting\npanic: something else\n",
}


class Kubelet(socketserver.StreamRequestHandler):
    """Serves /containerLogs/NAMESPACE/POD/CONTAINER on the socket by which the API server reaches nodes.

    The connection begins with CONNECT, and goes on with TLS. The API server does not verify a kubelet's certificate by
    default, so its own serves.
    """

    folder = Path()

    def handle(self) -> None:
        """Answer one request with the log of the pod, or with 404."""
        while self.rfile.readline().strip():
            pass
        self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        with context.wrap_socket(self.connection, server_side=True) as tunnel:
            path = tunnel.recv(1 << 16).split()[1].decode()
            text = LOGS.get(path.split("/")[3], "")
            status = "200 OK" if text else "404 Not Found"
            tunnel.sendall(
                f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()
            )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[BlockingClient]:
    folder = tmp_path_factory.mktemp("server")
    with (
        control_plane.run_control_plane(folder, control_plane_programs, controllers=False) as kubeconfig,
        serve_kubelet(folder),
        connect(str(kubeconfig)) as blocking_client,
    ):
        metadata = {"name": "default", "namespace": NAMESPACE}
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        blocking_client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        endpoint = {"kubeletEndpoint": {"Port": 10250}}
        put(blocking_client, "Node", "gpu-0", {"addresses": [address], "daemonEndpoints": endpoint})
        yield blocking_client


@contextmanager
def serve_kubelet(folder: Path) -> Iterator[None]:
    """Serve the logs of the node's pods until the block ends."""
    handler = type("KubeletOfFolder", (Kubelet,), {"folder": folder})
    with socketserver.ThreadingUnixStreamServer(str(folder / PODS), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def crashed() -> dict[str, Any]:
    """The status of a pod whose container ends again and again."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 9}
    return {"phase": "Running", "containerStatuses": [{**container, "state": {"waiting": waiting}}]}


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        pytest.param("shared", "shared-plugin-in-exclusive-mode", id="in the wrong mode"),
        pytest.param("nodes", "rdma-nodes-missing", id="without a module"),
    ],
)
def test_a_gate_names_the_cause_that_the_log_of_a_crashed_pod_shows(
    client: BlockingClient, name: str, cause: str
) -> None:
    daemon_set(client, name, 1, 1, 0)
    pod(client, name, crashed(), {"app": name}, on="gpu-0")
    gate = client.run(check_gate(client.dynamic, Wait(f"daemonset/{name}", ROLLED_OUT, NAMESPACE)))
    line = gate.missing[1]
    assert f"({cause}): pod {name} on gpu-0: CrashLoopBackOff: " in line
    assert f"; its log: {LOGS[name].strip()[:60]}" in line
    assert gate.remedy == load_causes()[cause].fix


def test_the_last_line_of_a_log_that_is_not_known_is_quoted(client: BlockingClient) -> None:
    daemon_set(client, "odd", 1, 1, 0)
    pod(client, "odd", crashed(), {"app": "odd"}, on="gpu-0")
    gate = client.run(check_gate(client.dynamic, Wait("daemonset/odd", ROLLED_OUT, NAMESPACE)))
    assert "; its log: panic: something else; `kubectl logs --previous" in gate.missing[1]


def test_without_a_log_the_message_stands_alone(client: BlockingClient) -> None:
    daemon_set(client, "silent", 1, 1, 0)
    pod(client, "silent", crashed(), {"app": "silent"}, on="gpu-0")
    gate = client.run(check_gate(client.dynamic, Wait("daemonset/silent", ROLLED_OUT, NAMESPACE)))
    assert "CrashLoopBackOff: back-off 5m0s restarting failed container; `kubectl logs" in gate.missing[1]
