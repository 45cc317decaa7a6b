"""etcd, API server, controller manager and scheduler on loopback, with one folder for all they leave.

    DIR/kubeconfig        the admin's, 0600
    DIR/nodes/            the kubeconfig of each node's kubelet, 0600
    DIR/processes.json    what was started, so that `down` stops exactly that; its being there makes the folder ours
    DIR/*.log, data/      logs; etcd's data, thrown away at the next start

Tokens and the one key are made anew at each start and stand in files of 0600, never in an argument. TLS is verified:
the server's certificate is its own authority. etcd listens on loopback without TLS and does not sync to disk.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from trackbed_lab.kubernetes import gateway, node
from trackbed_lab.kubernetes.build import locked
from trackbed_lab.kubernetes.programs import CONTROL_PLANE
from trackbed_lab.ports import hold_ports
from trackbed_lab.processes import LabProcess, start_process, stop_processes

READY_SECONDS = 120.0
"""It takes about 3 seconds on two idle cores."""

_RECORD, _FRESH = "processes.json", ".processes.json"
_NODES = "nodes"
_SECRETS = (
    gateway.EGRESS,
    gateway.PODS,
    gateway.API,
    "kubeconfig",
    "controller-manager.kubeconfig",
    "scheduler.kubeconfig",
    "tokens.csv",
    "key.pem",
    "cert.pem",
)
_LEFT = {
    "servers",
    _FRESH,
    "gateway.log",
    gateway.PODS,
    gateway.API,
    gateway.EGRESS,
    *(f"{program.name}.log" for program in CONTROL_PLANE),
}  # what `down` leaves in a folder

_USERS = {
    "admin": ("trackbed-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
}
"""Who has a token -> name and group; the controller manager acts for all its controllers."""

GATEWAY = "10.0.2.2"
"""Where an emulated server finds this machine's loopback (qemu(1), -netdev user)."""


class ControlPlaneError(Exception):
    """The control plane did not come up; the message says which part, and its last words."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one control plane is: its folder, the programs, its ports."""

    folder: Path
    programs: Path
    etcd: int
    peer: int
    api: int
    controller_manager: int
    scheduler: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api}"

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.folder / ("kubeconfig" if user == "admin" else f"{user}.kubeconfig")


def up(folder: Path, programs: Path, *, stays: bool = True, whole: bool = True, nodes: Sequence[str] = ()) -> Path:
    """Start a control plane in `folder`; the path of its kubeconfig. Raises ControlPlaneError.

    `stays`: it outlives this process. `whole`: with controller manager and scheduler; without them objects are kept
    and checked, but nothing acts on them. `nodes`: the emulated servers that will join, each
    with a kubeconfig of its own. What stood in `folder` stays as it was unless a control plane left it there.
    """
    folder = folder.absolute()
    try:
        with _claimed(folder), hold_ports(5) as ports, ExitStack() as undo:
            place = _Place(folder, programs, *ports)
            _prepare(place, nodes)
            started: list[LabProcess] = []
            undo.callback(stop_processes, started)
            for name, argv, ready in _parts(place, whole=whole):
                started.append(start_process(name, argv, folder, detached=stays))
                _record(folder, started)
                _await(started, ready)
            undo.pop_all()
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlPlaneError(f"the control plane cannot be started in {folder}: {error}") from error
    return place.kubeconfig()


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Have a folder for oneself: nobody else starts in it now, nothing runs in it, and nothing of others lies in it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not locked(descriptor):
            raise ControlPlaneError(f"a control plane is being started in {folder} right now")
        _refuse_what_is_not_ours(folder)
        yield
    finally:
        os.close(descriptor)


def _refuse_what_is_not_ours(folder: Path) -> None:
    """Certificates, keys and data in the folder will be replaced: they must be of a control plane before this one."""
    if any(process.is_alive for process in processes(folder)):
        raise ControlPlaneError(f"a control plane is running in {folder} already")
    others = sorted(path.name for path in folder.iterdir() if path.name not in _LEFT)
    if others and not (folder / _RECORD).exists():
        raise ControlPlaneError(
            f"{folder} holds {others[0]!r}, which is of no control plane; name an empty folder with --dir"
        )
    _record(folder, [])


def down(folder: Path) -> int:
    """Stop what was started in `folder`, and remove keys, tokens and data; how many processes were stopped.

    Raises ControlPlaneError where the folder's record cannot be read.
    """
    living = [process for process in processes(folder) if process.is_alive]
    stop_processes(living)
    if (folder / _RECORD).exists():
        for name in ("data", _NODES):
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in (folder / name for name in (*_SECRETS, _RECORD)):
            path.unlink(missing_ok=True)
    return len(living)


def open_gateway(folder: Path, servers: Path) -> None:
    """Join the control plane in `folder` with its nodes, the lab in `servers`. Raises ControlPlaneError."""
    words = [sys.executable, "-m", "trackbed_lab.kubernetes.gateway", str(folder), str(servers)]
    started = start_process("gateway", words, folder, detached=True)
    _record(folder, [*processes(folder), started])
    _await([started], (folder / gateway.PODS).is_socket)


def node_kubeconfig(folder: Path, name: str) -> str:
    """The text of the kubeconfig with which an emulated server's kubelet asks the API server in `folder`."""
    return (folder / _NODES / name).read_text()


@contextmanager
def running(folder: Path, programs: Path, *, whole: bool = True) -> Iterator[Path]:
    """A control plane that ends with the block, or with this process: yields its kubeconfig."""
    kubeconfig = up(folder, programs, stays=False, whole=whole)
    try:
        yield kubeconfig
    finally:
        down(folder)


def processes(folder: Path) -> tuple[LabProcess, ...]:
    """What was started in `folder`, living or not. Raises ControlPlaneError where the record cannot be read."""
    path = folder / _RECORD
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[LabProcess, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        raise ControlPlaneError(f"{path} is no record of a control plane ({error}); nothing was touched") from error


def _prepare(place: _Place, nodes: Sequence[str]) -> None:
    folder = place.folder
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / _NODES).mkdir(exist_ok=True, mode=0o700)
    users = _USERS | {node: (f"system:node:{node}", "system:nodes") for node in nodes}
    tokens = {user: secrets.token_urlsafe(32) for user in users}
    lines = [f'{tokens[user]},{name},{user},"{group}"\n' for user, (name, group) in users.items()]
    _private(folder / "tokens.csv", "".join(lines))
    _certificate(place)
    (folder / gateway.EGRESS).write_text(json.dumps(gateway.CONFIGURATION))
    for user, token in tokens.items():
        if user in nodes:
            path, url = folder / _NODES / user, f"https://{GATEWAY}:{place.api}"
        else:
            path, url = place.kubeconfig(user), place.url
        _private(path, json.dumps(_kubeconfig(place, url, token), indent=1))


def _certificate(place: _Place) -> None:
    """key.pem and cert.pem, which is its own authority; the key signs service account tokens too."""
    hosts = f"127.0.0.1,{GATEWAY},{node.SERVICE}"
    argv = [str(place.programs / "generate_cert"), "--host", hosts, "--ecdsa-curve", "P256", "--ca"]
    subprocess.run(argv, cwd=place.folder, check=True, capture_output=True, timeout=60)  # noqa: S603 - built here
    (place.folder / "key.pem").chmod(0o600)


def _kubeconfig(place: _Place, url: str, token: str) -> dict[str, Any]:
    authority = base64.b64encode((place.folder / "cert.pem").read_bytes()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }


_Ready = Callable[[], bool]


def _parts(place: _Place, *, whole: bool) -> Sequence[tuple[str, list[str], _Ready]]:
    parts = [
        ("etcd", _etcd(place), _answers(place, f"http://127.0.0.1:{place.etcd}/readyz")),
        ("kube-apiserver", _api_server(place), _answers(place, f"{place.url}/readyz")),
    ]
    if whole:
        parts += [_follower(place, "controller-manager", place.controller_manager)]
        parts += [_follower(place, "scheduler", place.scheduler)]
    return parts


def _etcd(place: _Place) -> list[str]:
    client, peer = f"http://127.0.0.1:{place.etcd}", f"http://127.0.0.1:{place.peer}"
    return [
        str(place.programs / "etcd"),
        "--data-dir=data",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _api_server(place: _Place) -> list[str]:
    return [
        str(place.programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{place.etcd}",
        f"--secure-port={place.api}",
        "--bind-address=127.0.0.1",
        "--tls-cert-file=cert.pem",
        "--tls-private-key-file=key.pem",
        f"--service-cluster-ip-range={node.SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--token-auth-file=tokens.csv",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=cert.pem",
        "--service-account-signing-key-file=key.pem",
        "--allow-privileged",
        f"--egress-selector-config-file={gateway.EGRESS}",
        "--enable-aggregator-routing",  # webhooks are called at their endpoints: nothing leads to a Service's address
    ]


def _follower(place: _Place, user: str, port: int) -> tuple[str, list[str], _Ready]:
    """Controller manager or scheduler: a client of the API server with a token of its own."""
    name = f"kube-{user}"
    argv = [
        str(place.programs / name),
        f"--kubeconfig={place.kubeconfig(user)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--tls-cert-file=cert.pem",
        "--tls-private-key-file=key.pem",
        "--leader-elect=false",
    ]
    if user == "controller-manager":
        argv += ["--service-account-private-key-file=key.pem", "--root-ca-file=cert.pem"]
    return name, argv, _answers(place, f"https://127.0.0.1:{port}/healthz")


def _answers(place: _Place, url: str) -> _Ready:
    """Whether an address answers 200; the API server's needs the admin's token."""

    def ready() -> bool:
        config = json.loads(place.kubeconfig().read_text())
        token = config["users"][0]["user"]["token"]
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - loopback
        try:
            trust = ssl.create_default_context(cafile=str(place.folder / "cert.pem"))
            direct = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
            with urllib.request.build_opener(*direct).open(request, timeout=5) as response:
                return bool(response.status == HTTPStatus.OK)
        except (urllib.error.URLError, OSError):
            return False

    return ready


def _await(started: Sequence[LabProcess], ready: _Ready) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ready():
        for process in started:
            if not process.is_alive:
                raise ControlPlaneError(f"{process.name} ended; {process.log} says last:\n{process.read_log_end()}")
        if time.monotonic() > deadline:
            last = started[-1]
            raise ControlPlaneError(
                f"{last.name} is not ready after {READY_SECONDS:.0f} s; {last.log} says last:\n{last.read_log_end()}"
            )
        time.sleep(0.1)


def _record(folder: Path, started: Sequence[LabProcess]) -> None:
    fresh = folder / _FRESH
    fresh.write_bytes(msgspec.json.encode(started))
    fresh.replace(folder / _RECORD)


def _private(path: Path, text: str) -> None:
    """Write a file that only its owner may ever have read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
