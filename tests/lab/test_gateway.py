"""The nodes' way to the API server and its way to their pods: a real switch, kernels at both ends."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from trackbed_lab.kubernetes import gateway
from trackbed_lab.processes import LabProcess, start_process, stop_processes
from trackbed_lab.vm.machine import LabShape

from tests.waiting import wait_until

SECONDS = 30.0
PYTHON = (sys.executable, "-m")
NODE = """
import asyncio, subprocess, sys
from pathlib import Path
from trackbed_lab.kubernetes import gateway

async def echo(reader, writer):
    writer.write(b"pod heard " + await reader.readline())
    writer.close()

async def main():
    tap = gateway.open_tap()
    for words in ("link set lo up", "link set cluster up", "address add 192.168.250.10/24 dev cluster",
                  "address add 10.244.0.5/32 dev lo", "route add 10.0.0.0/24 via 192.168.250.1"):
        subprocess.run(["ip", *words.split()], check=True)
    gateway.connect_tap(tap, Path(sys.argv[1]), 0, 1)
    async with await asyncio.start_server(echo, "10.244.0.5", 8443):
        reader, writer = await asyncio.open_connection("10.0.0.1", 443)
        writer.write(b"a pod\\n")
        print((await reader.readline()).decode(), flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A control plane's folder whose API server answers a line, beside a switch and one node."""
    servers = tmp_path / "servers"
    (servers / "net").mkdir(parents=True)
    (servers / "net/shape.json").write_bytes(msgspec.json.encode(LabShape(servers=1, rails=1, cluster=True)))
    with socket.create_server(("127.0.0.1", 0)) as api:
        url = f"https://127.0.0.1:{api.getsockname()[1]}"
        (tmp_path / "kubeconfig").write_text(json.dumps({"clusters": [{"cluster": {"server": url}}]}))
        unshared = ["unshare", "--net", sys.executable, "-c", NODE, str(servers)]
        started = [start_process("switch", [*PYTHON, "trackbed_lab.vm.switch", str(servers)], tmp_path, detached=False)]
        try:
            words = [*PYTHON, "trackbed_lab.kubernetes.gateway", str(tmp_path), str(servers)]
            started.append(start_process("gateway", words, tmp_path, detached=False))
            _until((tmp_path / gateway.PODS).is_socket, started)
            started.append(start_process("node", unshared, tmp_path, detached=False))
            api.settimeout(SECONDS)
            there, _ = api.accept()
            with there, there.makefile("rb") as lines:
                there.sendall(b"API heard " + lines.readline())
            yield tmp_path
        finally:
            stop_processes(started)


def _until(holds: Callable[[], bool], started: list[LabProcess]) -> None:
    def probe() -> bool:
        assert all(process.is_alive for process in started), describe()
        return holds()

    def describe() -> str:
        return str([f"{process.name}: {process.read_log_end()}" for process in started])

    wait_until(probe, describe)


def _connect(folder: Path, address: str) -> bytes:
    """What the API server is answered that asks for a connection and says a line."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SECONDS)
        line.connect(str(folder / gateway.PODS))
        line.sendall(f"CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        with line.makefile("rb") as lines:
            status = lines.readline() + lines.readline()
            if b" 200 " in status:
                line.sendall(b"a webhook\n")
            return status + lines.read()


@pytest.mark.needs("root", "unshare", "ip")
def test_a_pod_reaches_the_api_server_and_is_reached_by_it_alone(folder: Path) -> None:
    log = folder / "node.log"
    _until(lambda: "API heard a pod" in log.read_text(), [])
    assert _connect(folder, "10.244.0.5:8443") == b"HTTP/1.1 200 OK\r\n\r\npod heard a webhook\n"
    assert _connect(folder, "10.244.0.5:1") == b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
    assert _connect(folder, "nonsense") == b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
    assert (folder / gateway.PODS).stat().st_mode & 0o077 == 0
