"""How many reviews of pods a second the admission webhook does on one core, over TLS, and how long each waits.

The server is a process of its own on one core, the client on another. Connections are kept open, as the API server
does. `capacity`: each of 8 connections sends its next review as soon as it has an answer; what counts is the time that
the server's process had the core, TLS and kernel included, for on a shared machine others have it too. `paced`: 1,000 a
second are due at even intervals, whatever came of those before, and each waits from the moment it was due. Both again
beside slow clients, which send 3 MB of a body, stop, and come again once they are closed.
"""

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from bench.figures import Figure, percentile
from tests.cluster.webhook.process import WebhookProcess, serve_in_process, slow_clients
from trackbed.cluster.webhook.configuration import PODS

RATE: Final = 1000
_CONNECTIONS: Final = 8
_CAPACITY_S, _PACED_S = 4.0, 8.0
_WARM: Final = 200
SLOW_CLIENTS, MEMORY_MIB = 200, 256


def webhook() -> Iterator[Figure]:
    """Yield reviews a second, milliseconds at a steady thousand a second, and both again beside slow clients."""
    before = os.sched_getaffinity(0)
    try:
        with serve_in_process() as server:
            os.sched_setaffinity(0, {max(before)})
            yield from _measure_capacity(server)
            yield from _measure_paced(server, "")
            beside = f" beside {SLOW_CLIENTS} slow clients"
            with slow_clients(server, SLOW_CLIENTS):
                yield from _measure_paced(server, beside)
            yield Figure(f"webhook, peak memory{beside}", server.read_peak_bytes() / 2**20, MEMORY_MIB, "MiB")
    finally:
        os.sched_setaffinity(0, before)


def _measure_capacity(server: WebhookProcess) -> Iterator[Figure]:
    began = server.read_cpu_seconds()
    with _Load(server, REVIEW, _CAPACITY_S) as capacity:
        count = len(capacity.waited_s)
        each_s = (server.read_cpu_seconds() - began) / (count + _WARM)
    yield Figure("webhook, reviews a second of one core's time", 1 / each_s, RATE, "", at_least=True)
    yield Figure("webhook, reviews a second as the machine was", count / _CAPACITY_S, RATE, "", at_least=True)


def _measure_paced(server: WebhookProcess, beside: str) -> Iterator[Figure]:
    """Yield the latency of reviews, and of requests that ask for nothing, which shows what the machine adds."""
    for name, exchange in (("", REVIEW), (" of health checks (floor)", HEALTH)):
        with _Load(server, exchange, _PACED_S, RATE) as paced:
            for share in (0.5, 0.99):
                value = percentile(paced.waited_s, share) * 1000
                yield Figure(f"webhook, p{share * 100:.0f} at {RATE} a second{name}{beside}", value, 10, "ms")


@dataclass
class _Paced:
    """The times at which reviews are due; without a rate, at once."""

    start: float
    end: float
    rate: float | None
    sent: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def take_due_time(self) -> float | None:
        """Return the time of the next review; None after the last."""
        with self._lock:
            at = time.monotonic() if self.rate is None else self.start + self.sent / self.rate
            self.sent += 1
        return at if at < self.end else None


class _Load:
    """Connections that send reviews for some seconds; `waited_s` has the latency of each review."""

    def __init__(
        self, server: WebhookProcess, exchange: tuple[bytes, bytes], seconds: float, rate: float | None = None
    ) -> None:
        self._port = server.port
        self._request, self._expected = exchange
        self._trust = ssl.create_default_context(cadata=server.held.bundle.decode())
        self._seconds, self._rate = seconds, rate
        self.waited_s: list[float] = []

    def __enter__(self) -> Self:
        connections = [self._connect() for _ in range(_CONNECTIONS)]
        for connection in connections:
            for _ in range(_WARM // _CONNECTIONS):
                self._review(connection)
        now = time.monotonic()
        paced = _Paced(now, now + self._seconds, self._rate)
        threads = [threading.Thread(target=self._send, args=(connection, paced)) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

    def __exit__(self, *_: object) -> None:
        return

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def _send(self, connection: ssl.SSLSocket, paced: _Paced) -> None:
        with connection:
            while (due := paced.take_due_time()) is not None:
                if (early := due - time.monotonic()) > 0:
                    time.sleep(early)
                self._review(connection)
                self.waited_s.append(time.monotonic() - due)

    def _review(self, connection: ssl.SSLSocket) -> None:
        connection.sendall(self._request)
        response = b""
        while b"\r\n\r\n" not in response:
            response += _receive(connection)
        head, _, body = response.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += _receive(connection)
        if self._expected not in body:
            raise RuntimeError(response.decode())


def _receive(connection: ssl.SSLSocket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise RuntimeError("the server closed the connection of a client that finishes its requests")
    return data


def _request() -> bytes:
    """Return the HTTP request of a review of a training job's pod, as the API server sends it."""
    body = json.dumps(review(pod())).encode()
    head = f"POST {PODS}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def review(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the AdmissionReview of a new pod."""
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1", "resource": "pods"}
    groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": "ml",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller", "groups": groups},
            "object": body,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def pod() -> dict[str, Any]:
    """Return a pod with eight GPUs, a sidecar and a token, 4 KB as JSON."""
    limits = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}
    token = {
        "name": "kube-api-access-x7k2p",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    env = [{"name": f"SETTING_{number}", "value": "value"} for number in range(20)]
    main = {
        "name": "main",
        "image": "registry.example/train:24.05",
        "command": ["torchrun", "--nnodes=4", "--nproc-per-node=8", "train.py"],
        "resources": {"limits": limits, "requests": limits},
        "env": env,
        "volumeMounts": [token, {"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    side = {"name": "logs", "image": "registry.example/logs:1", "resources": {}, "env": env, "volumeMounts": [token]}
    labels = {"app": "train", "batch.kubernetes.io/job-name": "train", "controller-uid": "6a9c0d4e"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "train-0-",
            "namespace": "ml",
            "labels": labels,
            "annotations": {"trackbed.dev/rails": "all", "note": "x" * 200},
        },
        "spec": {
            "containers": [main, side],
            "volumes": [{"name": token["name"], "projected": {"sources": []}}, {"name": "data", "emptyDir": {}}],
            "restartPolicy": "Never",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


REVIEW: Final = _request(), b'"patchType":"JSONPatch"'
HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"ok"
"""A request, and what its response contains."""
