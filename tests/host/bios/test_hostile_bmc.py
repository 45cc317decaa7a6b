"""BMCs that answer to do harm: the password goes nowhere else, and time and memory have bounds."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.host.bios.test_emulator import SECRET, Place, bios, certificate, free_port, trusted
from trackbed.host.bios import connection

pytestmark = pytest.mark.needs("processes")

Reply = Callable[["_Handler"], None]
"""Function that answers a request."""

REGISTRY = {"Members": [{"@odata.id": "/redfish/v1/Registries/R"}]}
ROOT = {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "RedfishVersion": "1.6.0", "Id": "r", "Name": "r"}
DOCUMENTS = {
    "/redfish/v1/": ROOT,
    "/redfish/v1/Systems": {"Name": "s", "Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
    "/redfish/v1/Systems/1": {
        "Id": "1", "Name": "s", "Manufacturer": "Dell Inc.", "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
    },
    "/redfish/v1/Systems/1/Bios": {
        "Id": "b", "Name": "b", "AttributeRegistry": "R", "Attributes": {"ProcVirtualization": "Disabled"},
        "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/Bios/Settings"}},
    },
    "/redfish/v1/Systems/1/Bios/Settings": {"Id": "b", "Name": "b", "Attributes": {}},
    "/redfish/v1/Registries": REGISTRY,
    "/redfish/v1/Registries/R": {"Location": [{"Language": "en", "Uri": "/registry"}]},
    "/registry": {"RegistryEntries": {"Attributes": []}},
}  # fmt: skip


class _Handler(http.server.BaseHTTPRequestHandler):
    replies: dict[str, Reply]

    def do_GET(self) -> None:
        try:
            self.replies.get(self.path, _send_document)(self)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def _send_document(handler: _Handler) -> None:
    body = json.dumps(DOCUMENTS.get(handler.path, {})).encode()
    handler.send_response(200 if handler.path in DOCUMENTS else 404)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


class Listener:
    """Another host, which collects what it is sent, over plain HTTP."""

    def __init__(self) -> None:
        self.received: list[str] = []
        received = self.received

        class Collect(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                received.append(str(self.headers))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collect)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def other() -> Iterator[Listener]:
    listener = Listener()
    threading.Thread(target=listener.server.serve_forever, daemon=True).start()
    yield listener
    listener.server.shutdown()
    listener.server.server_close()


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[tuple[Place, dict[str, Reply]]]:
    certificate(tmp_path)
    replies: dict[str, Reply] = {}
    handler = type("Handler", (_Handler,), {"replies": replies})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Place(tmp_path, server.server_port), replies
    server.shutdown()
    server.server_close()


def _send(document: object) -> Reply:
    def reply(handler: _Handler) -> None:
        body = json.dumps(document).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def _redirect(url: str) -> Reply:
    def reply(handler: _Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return reply


def test_an_honest_bmc_is_read(bmc: tuple[Place, dict[str, Reply]]) -> None:
    result = bios(bmc[0], "diff", *trusted(bmc[0]))
    assert (result.exit_code, "error" in json.loads(result.stdout)["nodes"]["gpu-0"]) == (1, False), result.output


PATHS: dict[str, tuple[str, Callable[[str], Reply]]] = {
    "registry": ("/redfish/v1/Registries/R", lambda url: _send({"Location": [{"Language": "en", "Uri": f"{url}/r"}]})),
    "file": (
        "/redfish/v1/Registries",
        lambda url: _send({"Members": [{"@odata.id": f"{url}/R"}]}),
    ),
    "systems": ("/redfish/v1/", lambda url: _send({**ROOT, "Systems": {"@odata.id": f"{url}/s"}})),
    "system": ("/redfish/v1/Systems", lambda url: _send({"Name": "s", "Members": [{"@odata.id": f"{url}/1"}]})),
    "redirect": ("/redfish/v1/Systems/1", _redirect),
    "redirect of the registry": ("/registry", _redirect),
}


@pytest.mark.parametrize("name", PATHS)
def test_no_link_sends_the_password_to_another_host(
    bmc: tuple[Place, dict[str, Reply]], other: Listener, name: str
) -> None:
    path, make = PATHS[name]
    bmc[1][path] = make(other.url)
    result = bios(bmc[0], "diff", *trusted(bmc[0]))
    assert other.received == [], base64.b64encode(f"admin:{SECRET}".encode())
    assert result.exit_code == 3
    assert "nothing is sent to another host" in result.stdout, result.stdout


def _send_endlessly(handler: _Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def _drip(handler: _Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        threading.Event().wait(0.2)


def _drip_headers(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"x")
        threading.Event().wait(0.2)


@pytest.mark.parametrize("path", ["/redfish/v1/", "/registry"])
@pytest.mark.parametrize(
    ("reply", "message"),
    [(_send_endlessly, "larger than 1 MiB"), (_drip, "within 3 s"), (_drip_headers, "within 3 s")],
    ids=["endless", "dripping", "dripping headers"],
)
def test_an_answer_has_bounds(
    bmc: tuple[Place, dict[str, Reply]], monkeypatch: pytest.MonkeyPatch, path: str, reply: Reply, message: str
) -> None:
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 1 << 20)
    monkeypatch.setattr(connection, "MAX_TIMEOUTS", 3)
    bmc[1][path] = reply
    start = time.monotonic()
    result = bios(bmc[0], "diff", *trusted(bmc[0]), "--timeout", "1")
    assert (result.exit_code, message in result.stdout) == (3, True), result.output
    assert time.monotonic() - start < 20


GARBLED = ["x", 1, None, [], [[]], {"": 1}, {"Members": 5}, {"Members": [5]}, {"Location": [1]}, {"Location": [{}]}]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_garbled_answer_is_an_error_of_this_bmc(bmc: tuple[Place, dict[str, Reply]], path: str) -> None:
    for document in GARBLED:
        bmc[1][path] = _send(document)
        result = bios(bmc[0], "diff", *trusted(bmc[0]))
        assert (result.exit_code in {1, 3}, result.exception is None or isinstance(result.exception, SystemExit)) == (
            True, True,
        ), (document, result.exception)  # fmt: skip
