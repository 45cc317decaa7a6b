"""Simulated hosts for tests: see ground.py. What failing hosts do instead is a small program each."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.ground import address, mac
from tests.fleet.openssh import sshd

INSTEAD: Mapping[str, str] = {
    "hangs": "#!/bin/sh\nexec sleep 1000\n",
    "no-python": "#!/bin/sh\nmkdir -p {place}/bin; ln -sf /bin/sh {place}/bin/sh\n"
    'PATH={place}/bin exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n',
    # What began is killed after its first line: the pipe's reader kills the writer's session, then ends as killed.
    "dies": "#!/bin/sh\nmkfifo {place}/said; exec 3<&0; "
    'setsid nsenter --net={place}/net sh -c "$SSH_ORIGINAL_COMMAND" <&3 > {place}/said &\n'
    "read -r first < {place}/said; kill -9 -$!; echo $first; exit 137\n",
}
_GROUND = Path(__file__).with_name("ground.py")
_UP_SECONDS = 120
_LOWEST_PORT, _PORTS = 20_000, 12_000
"""Ports below 32768, where net.ipv4.ip_local_port_range begins."""


@dataclass(frozen=True)
class Site:
    """A running site: its folder holds fabric.yaml and ssh_config."""

    folder: Path
    hosts: int
    pid: int
    """The sshd, in the mount namespace that has the hosts' network namespaces."""

    def root(self, number: int) -> Path:
        """The tree of a host."""
        return self.folder / "hosts" / address(number) / "root"

    def netns(self, number: int) -> Path:
        """The network namespace of a host."""
        return Path(f"/proc/{self.pid}/root{self.folder}/hosts/{address(number)}/net")

    def trackbed(self, *words: str, config: str = "ssh_config") -> subprocess.CompletedProcess[str]:
        """Run a command of Trackbed's on the hosts of the site's Fabric."""
        return self.run(*words, "--ssh-config", str(self.folder / config))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Trackbed's on the site's Fabric."""
        return subprocess.run(
            [sys.executable, "-m", "trackbed", words[0], "-f", "fabric.yaml", *words[1:]],
            cwd=self.folder,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )


@contextmanager
def site(folder: Path, hosts: int, wrong: Mapping[int, str]) -> Iterator[Site]:
    """A site of gpu[001-...]; `wrong` says which fail, and how: names of INSTEAD, `refused`, `full`."""
    program, environment = sshd()
    port = _free_port()
    _files(folder, hosts, wrong, port)
    log = (folder / "sshd.log").open("wb")
    started = subprocess.Popen(
        ["unshare", "-m", sys.executable, str(_GROUND), str(folder), str(hosts), str(port), program],
        env=os.environ | environment,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        _wait_until_up(started, port, folder / "sshd.log")
        yield Site(folder, hosts, started.pid)
    finally:
        with log, suppress(ProcessLookupError):  # it may have ended, which the test then tells
            os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)


def _free_port() -> int:
    """Find a port below those that the kernel gives to connections, of which one may take it before sshd does."""
    with socket.socket() as sock:
        for _ in range(100):
            port = _LOWEST_PORT + secrets.randbelow(_PORTS)
            with suppress(OSError):
                sock.bind(("", port))
                return port
    pytest.fail("no port is free")


def _wait_until_up(started: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _UP_SECONDS
    while time.monotonic() < deadline and started.poll() is None:
        try:
            with socket.create_connection((address(1), port), 1):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"no sshd: {log.read_text()}")


def _files(folder: Path, hosts: int, wrong: Mapping[int, str], port: int) -> None:
    for name in ("host_key", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=20
        )
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"* {public}")
    lines = [
        f"IdentityFile {folder}/key",
        "IdentitiesOnly yes",
        "User root",
        f"UserKnownHostsFile {folder}/known_hosts",
    ]
    lines += ["StrictHostKeyChecking yes", "LogLevel ERROR"]
    for number in range(1, hosts + 1):
        used_port = 1 if wrong.get(number) == "refused" else port  # nobody listens on port 1
        lines += [f"Host gpu{number:03}", f"HostName {address(number)}", f"Port {used_port}"]
    for number in (1, 2):
        lines += [f"Host gate{number}", f"HostName {address(0xFF00 + number)}", f"Port {port}"]
        lines += ["ControlMaster auto", f"ControlPath {folder}/%n.mux", "ControlPersist 30"]  # as a site would have it
    (folder / "ssh_config").write_text("\n".join(lines) + "\n")
    jumps = [line for n in range(1, hosts + 1) for line in (f"Host gpu{n:03}", f"ProxyJump gate{1 + n % 2}")]
    (folder / "tree_config").write_text(f"{(folder / 'ssh_config').read_text()}" + "\n".join(jumps) + "\n")
    for number, how in wrong.items():
        place = folder / "hosts" / address(number)
        place.mkdir(parents=True)
        if how in INSTEAD:
            (place / "instead").write_text(INSTEAD[how].format(place=place))
            (place / "instead").chmod(0o755)
        if how == "full":
            (folder / "hosts/full").write_text(address(number))
    (folder / "fabric.yaml").write_text(json.dumps(_fabric(hosts)))


def _fabric(hosts: int) -> dict[str, object]:
    ports = {f"gpu{n:03}": [mac(n, 0), mac(n, 1)] for n in range(1, hosts + 1)}
    group = {"hosts": f"gpu[001-{hosts:03}]", "hostPorts": ports}
    addressing = {"scheme": "node-subnet", "ipv4": "10.64.0.0/12"}
    spec = {"nodes": [group], "rails": 2, "addressing": addressing}
    return {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "train"}, "spec": spec}
