"""How many reviews of pods a second the admission webhook does on one core, over TLS, and how long each waits.

The server is a process of its own on one core, the client on another. Connections are kept open, as the API server
does. `capacity`: each of 8 connections sends its next review as soon as it has an answer; what counts is the time that
the server's process had the core, TLS and kernel included, for on a shared machine others have it too. `paced`: 1,000 a
second are due at even intervals, whatever came of those before, and each waits from the moment it was due.
"""

import json
import multiprocessing
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, Final, Self

from bench.figures import Figure, percentile
from tests.cluster.webhook.live import Fixed, Webhook
from tests.cluster.webhook.values import fabric
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace
from trackbed.cluster.webhook.configuration import PODS
from trackbed.cluster.webhook.server import tune_garbage_collector

RATE: Final = 1000
_CONNECTIONS: Final = 8
_CAPACITY_S, _PACED_S = 4.0, 8.0
_WARM: Final = 200
_RAILS: Final = 8


def webhook() -> Iterator[Figure]:
    """Reviews a second, and milliseconds of each at a steady thousand a second."""
    held = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, held), daemon=True)
    process.start()
    before = os.sched_getaffinity(0)
    try:
        port = ours.recv()
        began = _cpu_s(ours)
        os.sched_setaffinity(0, {max(before)})
        with _Load(port, held, _CAPACITY_S) as capacity:
            each_s = (_cpu_s(ours) - began) / (len(capacity.waited_s) + _WARM)
            count = len(capacity.waited_s)
        with _Load(port, held, _PACED_S, RATE) as paced:
            waited = paced.waited_s
    finally:
        os.sched_setaffinity(0, before)
        ours.send(None)
        process.join(10)
    yield Figure("webhook, reviews a second of one core's time", 1 / each_s, RATE, "", at_least=True)
    yield Figure("webhook, reviews a second as the machine was", count / _CAPACITY_S, RATE, "", at_least=True)
    for share in (0.5, 0.99):
        value = percentile(waited, share) * 1000
        yield Figure(f"webhook, p{share * 100:.0f} at {RATE} a second", value, 10, "ms")


def _cpu_s(server: Connection) -> float:
    """Seconds that the server's process has had a core so far."""
    server.send("cpu")
    found: float = server.recv()
    return found


def _serve(parent: Connection, held: CertificateSet) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known = ClusterState({"train": fabric("train", "spiderpool", _RAILS)}, namespaces={"ml": Namespace()})
    tune_garbage_collector()
    server = Webhook(Fixed(state=known), held)
    parent.send(server.port)
    while parent.recv() is not None:
        parent.send(time.process_time())
    server.stop()


@dataclass
class _Paced:
    """When each review is due; without a rate, at once."""

    start: float
    end: float
    rate: float | None
    sent: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def due(self) -> float | None:
        """When the next one is due; None when all have been."""
        with self._lock:
            at = time.monotonic() if self.rate is None else self.start + self.sent / self.rate
            self.sent += 1
        return at if at < self.end else None


class _Load:
    """Connections that send reviews for some seconds; `waited_s` of each."""

    def __init__(self, port: int, held: CertificateSet, seconds: float, rate: float | None = None) -> None:
        self._port, self._request = port, _request()
        self._trust = ssl.create_default_context(cadata=held.bundle.decode())
        self._seconds, self._rate = seconds, rate
        self.waited_s: list[float] = []

    def __enter__(self) -> Self:
        connections = [self._connected() for _ in range(_CONNECTIONS)]
        for connection in connections:
            for _ in range(_WARM // _CONNECTIONS):
                self._review(connection)
        now = time.monotonic()
        paced = _Paced(now, now + self._seconds, self._rate)
        threads = [threading.Thread(target=self._send, args=(one, paced)) for one in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

    def __exit__(self, *_: object) -> None:
        return

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def _send(self, connection: ssl.SSLSocket, paced: _Paced) -> None:
        with connection:
            while (due := paced.due()) is not None:
                if (early := due - time.monotonic()) > 0:
                    time.sleep(early)
                self._review(connection)
                self.waited_s.append(time.monotonic() - due)

    def _review(self, connection: ssl.SSLSocket) -> None:
        connection.sendall(self._request)
        told = b""
        while b"\r\n\r\n" not in told:
            told += connection.recv(65536)
        head, _, body = told.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += connection.recv(65536)
        if b'"patchType":"JSONPatch"' not in body:
            raise RuntimeError(told.decode())


def _request() -> bytes:
    """A review as the API server sends it, of a pod as a training job has it."""
    body = json.dumps(review(pod())).encode()
    head = f"POST {PODS}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def review(one: Mapping[str, Any]) -> dict[str, Any]:
    """The AdmissionReview of a pod that is created."""
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
            "object": one,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def pod() -> dict[str, Any]:
    """Eight GPUs, a sidecar, a token: 4 KB as JSON."""
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
