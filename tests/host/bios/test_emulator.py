"""The command against sushy-tools' emulator: a real Redfish server over TLS with a password."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

from tests.cli.json_page import check_document
from trackbed.cli.main import cli

pytestmark = pytest.mark.needs("processes")

SECRET = "correct horse"  # noqa: S105 - of an emulator that lives as long as this test


class Place(NamedTuple):
    """Where a server listens, and files that speak for it."""

    folder: Path
    port: int


def certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "ca.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=folder, check=True, capture_output=True, timeout=30,
    )  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            threading.Event().wait(0.05)
        else:
            return
    pytest.fail(f"the emulator does not listen; it ended with {process.poll()}")


def bcrypt(word: str) -> str:
    import bcrypt as library  # noqa: PLC0415 - comes with sushy-tools

    return library.hashpw(word.encode(), library.gensalt(4)).decode()


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Place]:
    certificate(tmp_path)
    port = free_port()
    (tmp_path / "htpasswd").write_text(f"admin:{bcrypt(SECRET)}\n")
    (tmp_path / "emulator.conf").write_text(
        f"SUSHY_EMULATOR_AUTH_FILE = {str(tmp_path / 'htpasswd')!r}\nSUSHY_EMULATOR_STATE_DIR = {str(tmp_path)!r}\n"
    )
    argv = [sys.executable, str(Path(__file__).with_name("emulator.py")), "--fake", "-i", "127.0.0.1", "-p", str(port),
            "--config", "emulator.conf", "--ssl-certificate", "ca.pem", "--ssl-key", "key.pem"]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=log, stderr=log)
    try:
        until_it_listens(port, process)
        yield Place(tmp_path, port)
    finally:
        process.terminate()
        process.wait(60)


def bios(  # noqa: PLR0913 - what a test may vary, each by name
    place: Place,
    action: str,
    *words: str,
    password: str = SECRET,
    vendor: str = "  vendor: dell",
    typed: str = "",
    hosts: str = "gpu-0",
    bmc: str = "localhost",
) -> Result:
    fabric = place.folder / "fabric.yaml"
    fabric.write_text(
        "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: t}\nspec:\n"
        f'  nodes: [{{hosts: "{hosts}"}}]\n'
        "  rails: 1\n  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/16}\n"
        f'  bios:\n    bmc: "{bmc}:{place.port}"\n    iommu: enabled\n  {vendor}\n'
    )
    secret = place.folder / "secret"
    secret.touch(0o600)
    secret.write_text(f"admin\n{password}\n")
    argv = ["bios", action, "-f", str(fabric), "--credentials", str(secret), "--record", str(place.folder / "record"),
            "-o", "json", "--timeout", "5", *words]  # fmt: skip
    return CliRunner().invoke(cli, argv, input=typed)


def trusted(place: Place) -> tuple[str, str]:
    return "--ca", str(place.folder / "ca.pem")


def states(result: Result) -> list[str]:
    return [item["state"] for item in json.loads(result.stdout)["nodes"]["gpu-0"]["items"]]


def test_diff_apply_apply_and_undo(emulator: Place) -> None:
    ca = trusted(emulator)
    first = bios(emulator, "diff", *ca)
    assert (first.exit_code, states(first)) == (1, ["differs", "same"])
    check_document("bios diff", json.loads(first.stdout))
    done = bios(emulator, "apply", "--yes", *ca)
    node = json.loads(done.stdout)["nodes"]["gpu-0"]
    assert (done.exit_code, node["staged"], node["reboot"]) == (0, 1, True)
    again = bios(emulator, "apply", "--yes", *ca)
    assert (again.exit_code, json.loads(again.stdout)["nodes"]["gpu-0"]["staged"]) == (0, 0)
    record = emulator.folder / "record" / "gpu-0.json"
    assert json.loads(record.read_text()) == {"ProcVirtualization": "Disabled"}
    assert record.stat().st_mode & 0o777 == 0o600
    assert bios(emulator, "undo", "--yes", *ca).exit_code == 0
    assert states(bios(emulator, "diff", *ca)) == ["differs", "same"]
    assert not record.exists()


def test_the_question_stays_out_of_the_document(emulator: Place) -> None:
    done = bios(emulator, "apply", *trusted(emulator), typed="y\n")
    assert json.loads(done.stdout)["nodes"]["gpu-0"]["staged"] == 1
    assert "Apply on 1 servers?" in done.stderr


@pytest.mark.parametrize("typed", ["", "n\n"])
def test_without_a_yes_nothing_is_asked_of_a_bmc(tmp_path: Path, typed: str) -> None:
    done = bios(Place(tmp_path, 1), "apply", typed=typed)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nothing was changed" in done.stderr


def test_a_wrong_password_and_a_foreign_certificate_are_told_apart(emulator: Place) -> None:
    wrong = bios(emulator, "diff", *trusted(emulator), password="no")  # noqa: S106 - a wrong one
    assert wrong.exit_code == 3
    assert "refused user or password" in wrong.stdout
    foreign = bios(emulator, "diff")
    assert foreign.exit_code == 3
    assert "certificate is not trusted" in foreign.stdout
    assert SECRET not in wrong.output + foreign.output


def test_a_manufacturer_without_a_profile_is_named(emulator: Place) -> None:
    result = bios(emulator, "diff", *trusted(emulator), vendor="")
    assert result.exit_code == 3
    assert "'Sushy Emulator'" in result.stdout
    assert "spec.bios.vendor" in result.stdout


def test_a_bmc_that_does_not_answer_ends_in_time(tmp_path: Path) -> None:
    certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = Place(tmp_path, server.getsockname()[1])
        result = bios(place, "diff", *trusted(place), "--timeout", "1")
    assert result.exit_code == 3
    assert "no answer within 1 s" in result.stdout


def test_servers_are_asked_side_by_side_and_told_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No BMC answers before all of them have been called."""
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _, *words, **options: resolve("127.0.0.1", *words, **options))
    names = [f"gpu-{number}" for number in range(8)]
    certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        held: list[socket.socket] = []

        def hold() -> None:
            server.settimeout(20)
            while len(held) < len(names):
                held.append(server.accept()[0])
            for mapped in held:
                mapped.close()

        holder = threading.Thread(target=hold)
        holder.start()
        place = Place(tmp_path, server.getsockname()[1])
        result = bios(place, "diff", *trusted(place), "--timeout", "20", hosts="gpu-[0-7]", bmc="bmc-{host}")
        holder.join(30)
    assert len(held) == len(names)
    assert list(json.loads(result.stdout)["nodes"]) == names


def test_a_file_of_credentials_that_others_can_read_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, 1)
    secret = tmp_path / "secret"
    secret.touch()
    secret.chmod(0o644)
    result = bios(place, "diff")
    assert result.exit_code == 2
    assert "chmod 600" in result.stderr
