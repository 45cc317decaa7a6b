"""`trackbed controller` as a process: what it tells of itself, with and without an API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from click.testing import CliRunner
from trackbed_lab.kubernetes.blocking import connect
from trackbed_lab.ports import hold_ports

from tests.kinds import installed
from tests.waiting import wait_until
from trackbed.cli.main import cli

SECONDS = 60.0


@contextmanager
def served(kubeconfig: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A controller, and the address at which it is watched; killed at the end if it lives."""
    with hold_ports(1) as (port,):
        where = f"127.0.0.1:{port}"
    argv = [sys.executable, "-m", "trackbed", "controller", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(
        [*argv, "--metrics", where, "--namespace", "default", "--name", "only"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        yield process, f"http://{where}"
    finally:
        process.kill()
        process.wait(SECONDS)


def until(url: str, wanted: str) -> None:
    """Ask until status and body have what is wanted."""

    def read() -> str:
        with suppress(ConnectionRefusedError):  # it does not listen yet
            return asked(url)
        return ""

    wait_until(lambda: wanted in read(), lambda: f"{url} says {wanted}; it says {read()}")


def asked(url: str) -> str:
    """Status and body of what is at a URL."""
    where = urlsplit(url)
    connection = HTTPConnection(str(where.hostname), where.port, timeout=SECONDS)
    try:
        connection.request("GET", where.path)
        response = connection.getresponse()
        return f"{response.status} {response.read().decode()}"
    finally:
        connection.close()


def test_one_that_leads_is_ready_and_says_so(api_server: Path) -> None:
    with connect(str(api_server)) as client:
        installed(client)
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, force=True)
    with served(api_server) as (process, url):
        until(f"{url}/readyz", "200 ok")
        until(f"{url}/metrics", "\ntrackbed_leader 1.0\n")
        until(f"{url}/metrics", '\ntrackbed_api_requests_total{code="200",verb="WATCH"} ')
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_without_an_api_server_it_lives_and_is_not_ready(api_server: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(api_server.read_text().replace("https://127.0.0.1:", "https://127.0.0.2:"))
    with served(nowhere) as (_, url):
        until(f"{url}/healthz", "200 ok")
        until(f"{url}/readyz", "503 Lease trackbed-controller could not be read for 15 s")
        until(f"{url}/metrics", '\ntrackbed_api_requests_total{code="none",verb="GET"} ')
        until(f"{url}/metrics", "\ntrackbed_leader 0.0\n")


def test_an_address_of_another_machine_is_told(api_server: Path) -> None:
    words = ["controller", "--kubeconfig", str(api_server), "--metrics", "192.0.2.1:8080"]
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, "cannot serve at 192.0.2.1:8080: " in done.stderr) == (2, True), done.output
