"""etcd, API server, controller manager and scheduler on loopback, with their files in one folder.

    DIR/kubeconfig        the administrator's kubeconfig, mode 0600
    DIR/nodes/            the kubeconfig of each node's kubelet, mode 0600
    DIR/processes.json    the processes of the control plane; it marks the folder as the control plane's
    DIR/etcd/             etcd's data and sockets, mode 0700, deleted at the next start
    DIR/*.log             logs

Tokens and the key are generated at each start and stored in files of mode 0600, never passed as arguments. TLS is
verified: the server's certificate is its own authority. etcd, which asks nobody who they are, listens on no port: else
other users of this machine, and pods, which reach its loopback through their emulated server, would rule the cluster.
"""

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
from trackbed_lab.kubernetes.build import try_lock
from trackbed_lab.kubernetes.programs import CONTROL_PLANE
from trackbed_lab.ports import hold_ports
from trackbed_lab.processes import LabProcess, defer_signals, kill_process, start_process, stop_processes

READY_SECONDS = 120.0
"""Limit for a start, which takes about 3 seconds on two idle cores."""

_RECORD, _TEMPORARY = "processes.json", ".processes.json"
_NODES = "nodes"
_ETCD = "etcd"
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
_KEPT = {
    "servers",
    _TEMPORARY,
    "gateway.log",
    gateway.PODS,
    gateway.API,
    gateway.EGRESS,
    *(f"{program.name}.log" for program in CONTROL_PLANE),
}  # files that may remain in a stopped control plane's folder

_USERS = {
    "admin": ("trackbed-admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
}
"""User -> name and group of its token; the controller manager uses one identity for all its controllers."""


class ControlPlaneError(Exception):
    """The control plane did not come up; the message says which program failed, with the end of its log."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Folder, programs and ports of one control plane."""

    folder: Path
    programs: Path
    api: int
    controller_manager: int
    scheduler: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api}"

    def locate_kubeconfig(self, user: str = "admin") -> Path:
        return self.folder / ("kubeconfig" if user == "admin" else f"{user}.kubeconfig")


def start_control_plane(
    folder: Path, programs: Path, *, detached: bool = True, controllers: bool = True, nodes: Sequence[str] = ()
) -> Path:
    """Start a control plane in `folder`; return the path of its kubeconfig.

    With `detached` it outlives this process. Without `controllers` (controller manager and scheduler) objects are
    stored and validated, but nothing acts on them. `nodes` are emulated servers that will join; each gets its own
    kubeconfig. Only files of an earlier control plane in `folder` are replaced.

    Raises:
        ControlPlaneError: it did not come up, or the folder is in use or has other files.
    """
    folder = folder.absolute()
    try:
        with _claim_folder(folder), hold_ports(3) as ports, ExitStack() as undo:
            layout = _Layout(folder, programs, *ports)
            undo.callback(_stop_and_delete, folder)
            _write_configuration(layout, nodes)
            processes: list[LabProcess] = []
            for name, argv, is_ready in _list_programs(layout, controllers=controllers):
                with defer_signals():
                    processes.append(start_process(name, argv, folder, detached=detached))
                    _write_record(folder, processes)
                _wait_until_ready(processes, is_ready)
            undo.pop_all()
    except (OSError, subprocess.SubprocessError) as error:
        raise ControlPlaneError(f"the control plane cannot be started in {folder}: {error}") from error
    return layout.locate_kubeconfig()


@contextmanager
def _claim_folder(folder: Path) -> Iterator[None]:
    """Lock a folder in which nothing runs and which has no unrelated files. Raises ControlPlaneError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not try_lock(descriptor):
            raise ControlPlaneError(f"a control plane is being started in {folder} right now")
        _check_folder(folder)
        yield
    finally:
        os.close(descriptor)


def _check_folder(folder: Path) -> None:
    """Check that certificates, keys and data in the folder, which will be replaced, are of a stopped control plane."""
    if any(process.is_alive for process in load_processes(folder)):
        raise ControlPlaneError(f"a control plane is running in {folder} already")
    others = sorted(path.name for path in folder.iterdir() if path.name not in _KEPT)
    if others and not (folder / _RECORD).exists():
        raise ControlPlaneError(
            f"{folder} holds {others[0]!r}, which is of no control plane; name an empty folder with --dir"
        )
    _write_record(folder, [])


def stop_control_plane(folder: Path) -> int:
    """Stop the processes of `folder` and delete keys, tokens and data; return how many processes were running.

    Raises:
        ControlPlaneError: the folder's record cannot be read.
    """
    running = [process for process in load_processes(folder) if process.is_alive]
    stop_processes(running)
    if (folder / _RECORD).exists():
        for name in (_ETCD, _NODES):
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in (folder / name for name in (*_SECRETS, _RECORD)):
            path.unlink(missing_ok=True)
    return len(running)


def _stop_and_delete(folder: Path) -> None:
    """Stop what was started in the folder, also if further signals come meanwhile."""
    with defer_signals():
        stop_control_plane(folder)


def start_gateway(folder: Path, servers: Path, *, detached: bool = True) -> None:
    """Connect the control plane of `folder` with its nodes, the lab of `servers`. Raises ControlPlaneError."""
    argv = [sys.executable, "-m", "trackbed_lab.kubernetes.gateway", str(folder), str(servers)]
    with defer_signals():
        process = start_process("gateway", argv, folder, detached=detached)
        _write_record(folder, [*load_processes(folder), process])
    _wait_until_ready([process], (folder / gateway.PODS).is_socket)


def read_node_kubeconfig(folder: Path, name: str) -> str:
    """Return the text of the kubeconfig of an emulated server's kubelet."""
    return (folder / _NODES / name).read_text()


@contextmanager
def run_control_plane(folder: Path, programs: Path, *, controllers: bool = True) -> Iterator[Path]:
    """Run a control plane for the block or until this process ends; yield its kubeconfig."""
    kubeconfig = start_control_plane(folder, programs, detached=False, controllers=controllers)
    try:
        yield kubeconfig
    finally:
        stop_control_plane(folder)


def load_processes(folder: Path) -> tuple[LabProcess, ...]:
    """Return the processes that were started in `folder`. Raises ControlPlaneError if the record cannot be read."""
    path = folder / _RECORD
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[LabProcess, ...])
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        raise ControlPlaneError(f"{path} is no record of a control plane ({error}); nothing was touched") from error


def _write_configuration(layout: _Layout, nodes: Sequence[str]) -> None:
    """Delete the data of an earlier control plane; write tokens, certificate and kubeconfigs."""
    folder = layout.folder
    shutil.rmtree(folder / _ETCD, ignore_errors=True)
    (folder / _ETCD).mkdir(mode=0o700)
    (folder / _NODES).mkdir(exist_ok=True, mode=0o700)
    users = _USERS | {node: (f"system:node:{node}", "system:nodes") for node in nodes}
    tokens = {user: secrets.token_urlsafe(32) for user in users}
    lines = [f'{tokens[user]},{name},{user},"{group}"\n' for user, (name, group) in users.items()]
    _write_private_file(folder / "tokens.csv", "".join(lines))
    _make_certificate(layout)
    (folder / gateway.EGRESS).write_text(json.dumps(gateway.CONFIGURATION))
    for user, token in tokens.items():
        if user in nodes:
            path, url = folder / _NODES / user, f"https://{node.KUBERNETES_SERVICE}"
        else:
            path, url = layout.locate_kubeconfig(user), layout.url
        _write_private_file(path, json.dumps(_build_kubeconfig(layout, url, token), indent=1))


def _make_certificate(layout: _Layout) -> None:
    """Create key.pem and the self-signed cert.pem; the key signs service account tokens too."""
    hosts = f"127.0.0.1,{node.KUBERNETES_SERVICE}"
    argv = [str(layout.programs / "generate_cert"), "--host", hosts, "--ecdsa-curve", "P256", "--ca"]
    subprocess.run(argv, cwd=layout.folder, check=True, capture_output=True, timeout=60)  # noqa: S603 - built by the lab
    (layout.folder / "key.pem").chmod(0o600)


def _build_kubeconfig(layout: _Layout, url: str, token: str) -> dict[str, Any]:
    authority = base64.b64encode((layout.folder / "cert.pem").read_bytes()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }


_IsReady = Callable[[], bool]


def _list_programs(layout: _Layout, *, controllers: bool) -> Sequence[tuple[str, list[str], _IsReady]]:
    """Return name, command and readiness check of each program, in the order in which they are started."""
    programs = [
        ("etcd", _build_etcd_command(layout), (layout.folder / _ETCD / "client.sock").is_socket),
        ("kube-apiserver", _build_api_server_command(layout), _build_readiness_check(layout, f"{layout.url}/readyz")),
    ]
    if controllers:
        programs += [_build_controller_program(layout, "controller-manager", layout.controller_manager)]
        programs += [_build_controller_program(layout, "scheduler", layout.scheduler)]
    return programs


def _build_etcd_command(layout: _Layout) -> list[str]:
    """Return etcd's command. What it advertises is for other members only, and there are none."""
    advertised = "http://localhost:0"
    return [
        *("/usr/bin/env", f"--chdir={_ETCD}"),  # its sockets are named by their last part only
        str(layout.programs / "etcd"),
        "--data-dir=data",
        "--listen-client-urls=unix://client.sock",
        f"--advertise-client-urls={advertised}",
        "--listen-peer-urls=unix://peer.sock",
        f"--initial-advertise-peer-urls={advertised}",
        f"--initial-cluster=default={advertised}",
        "--unsafe-no-fsync",
    ]


def _build_api_server_command(layout: _Layout) -> list[str]:
    return [
        str(layout.programs / "kube-apiserver"),
        f"--etcd-servers=unix://{_ETCD}/client.sock",
        f"--secure-port={layout.api}",
        "--bind-address=127.0.0.1",
        "--tls-cert-file=cert.pem",
        "--tls-private-key-file=key.pem",
        f"--service-cluster-ip-range={node.SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--token-auth-file=tokens.csv",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=cert.pem",
        "--service-account-signing-key-file=key.pem",
        "--allow-privileged",
        f"--egress-selector-config-file={gateway.EGRESS}",
        "--enable-aggregator-routing",  # webhooks are called at their endpoints, as there is no kube-proxy
    ]


def _build_controller_program(layout: _Layout, user: str, port: int) -> tuple[str, list[str], _IsReady]:
    """Return name, command and readiness check of the controller manager or the scheduler."""
    name = f"kube-{user}"
    argv = [
        str(layout.programs / name),
        f"--kubeconfig={layout.locate_kubeconfig(user)}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--tls-cert-file=cert.pem",
        "--tls-private-key-file=key.pem",
        "--leader-elect=false",
    ]
    if user == "controller-manager":
        argv += ["--service-account-private-key-file=key.pem", "--root-ca-file=cert.pem"]
    return name, argv, _build_readiness_check(layout, f"https://127.0.0.1:{port}/healthz")


def _build_readiness_check(layout: _Layout, url: str) -> _IsReady:
    """Return a function that checks whether a URL responds with 200 to the administrator's token."""

    def is_ready() -> bool:
        config = json.loads(layout.locate_kubeconfig().read_text())
        token = config["users"][0]["user"]["token"]
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - loopback
        try:
            trust = ssl.create_default_context(cafile=str(layout.folder / "cert.pem"))
            handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
            with urllib.request.build_opener(*handlers).open(request, timeout=5) as response:
                return bool(response.status == HTTPStatus.OK)
        except (urllib.error.URLError, OSError):
            return False

    return is_ready


def _wait_until_ready(processes: Sequence[LabProcess], is_ready: _IsReady) -> None:
    """Wait for the last of the processes. Raises ControlPlaneError if one of them ended, or at the deadline."""
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready():
        for process in processes:
            if not process.is_alive:
                raise ControlPlaneError(f"{process.name} ended; {process.log} says last:\n{process.read_log_end()}")
        if time.monotonic() > deadline:
            late = processes[-1]
            raise ControlPlaneError(
                f"{late.name} is not ready after {READY_SECONDS:.0f} s; {late.log} says last:\n{late.read_log_end()}"
            )
        time.sleep(0.1)


def _write_record(folder: Path, processes: Sequence[LabProcess]) -> None:
    """Replace the record of the folder's processes atomically."""
    temporary = folder / _TEMPORARY
    temporary.write_bytes(msgspec.json.encode(processes))
    temporary.replace(folder / _RECORD)


def _write_private_file(path: Path, text: str) -> None:
    """Replace a file by one that is created with mode 0600."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)


def kill_program(folder: Path, name: str) -> list[str]:
    """Kill a program of a running control plane with SIGKILL; return its command."""
    process = next(process for process in load_processes(folder) if process.name == name)
    argv = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    kill_process(process)
    return argv


def start_program_again(folder: Path, name: str, argv: Sequence[str]) -> None:
    """Start a program that was killed, without waiting until it is ready."""
    others = [process for process in load_processes(folder) if process.name != name]
    _write_record(folder, [*others, start_process(name, argv, folder, detached=True)])
