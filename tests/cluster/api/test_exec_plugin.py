"""Plugins that log in, against a server that takes one token or one certificate at a time."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.client_certificates import sign_client
from trackbed.cluster.api.client import Client, RequestPolicy
from trackbed.cluster.api.configuration import load_configuration
from trackbed.cluster.api.errors import ConfigurationError
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates

pytestmark = pytest.mark.needs("processes")

V1 = "client.authentication.k8s.io/v1"
SECONDS = 60.0
PLUGIN = """#!/bin/sh
cd "$(dirname "$0")"
echo run >>runs
printf '%s' "$KUBERNETES_EXEC_INFO" >question
if [ "$(wc -l <runs)" = 1 ]; then cat first; else cat second; fi
"""


class Server(ThreadingHTTPServer):
    """Answers with 200 to who is wanted: a token, or the common bytes of a certificate; with 401 to all others."""

    wanted: object = None
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    """Keeps connections, as API servers do."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer by who asks."""
        shown = (self.headers["Authorization"], self.connection.getpeercert(binary_form=True))
        content = b"{}"
        self.send_response(200 if self.server.wanted in shown else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def authority() -> CertificateSet:
    return renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))


@pytest.fixture
def server(authority: CertificateSet, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server.pem").write_bytes(authority.certificate + authority.key)
    (tmp_path / "ca.crt").write_bytes(authority.bundle)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    tls.load_cert_chain(tmp_path / "server.pem")
    tls.verify_mode = ssl.CERT_OPTIONAL
    with Server(("127.0.0.1", 0), Handler) as started:
        started.socket = tls.wrap_socket(started.socket, server_side=True)
        thread = threading.Thread(target=started.serve_forever)
        thread.start()
        yield started
        started.shutdown()
        thread.join()


def answer(token: str | None = None, **status: str) -> str:
    status |= {"token": token} if token else {}
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def certify(pem: bytes) -> tuple[dict[str, str], bytes]:
    """What a plugin prints of a certificate and its key, and the certificate as a server gets it."""
    certificate, key = pem.decode().split("-----BEGIN PRIVATE KEY-----")
    shown = {"clientCertificateData": certificate, "clientKeyData": f"-----BEGIN PRIVATE KEY-----{key}"}
    return shown, ssl.PEM_cert_to_DER_cert(certificate)


def write_config(folder: Path, port: int, answers: list[str], **plugin: Any) -> Path:
    """Write a kubeconfig and its plugin, which gives these answers, the last of them ever after."""
    (folder / "login").write_text(PLUGIN)
    (folder / "login").chmod(0o755)
    (folder / "first").write_text(answers[0])
    (folder / "second").write_text(answers[-1])
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"realm": "rails"}}
    config = {
        "clusters": [
            {"name": "c", "cluster": {**cluster, "extensions": [{"name": "other", "extension": 1}, extension]}}
        ],
        "users": [{"name": "u", "user": {"exec": {"apiVersion": V1, "command": "./login", **plugin}}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(json.dumps(config))
    return folder / "config"


def ask(config: Path, *rounds: int, before: dict[int, Any] | None = None, server: Server | None = None) -> None:
    """Ask with one client, so many requests at once in each round; `before` is who is wanted from a round on."""

    async def run() -> None:
        async with asyncio.timeout(SECONDS), Client(load_configuration(str(config)), RequestPolicy(SECONDS)) as client:
            for number, requests in enumerate(rounds):
                if server and before and number in before:
                    server.wanted = before[number]
                await asyncio.gather(*(client.get("/version", dict[str, str]) for _ in range(requests)))

    asyncio.run(run())


def count_runs(folder: Path) -> int:
    return len((folder / "runs").read_text().split())


def test_a_plugin_runs_once_for_all_requests_and_again_when_its_token_is_refused(
    server: Server, tmp_path: Path
) -> None:
    config = write_config(tmp_path, server.server_port, [answer("one"), answer("two")])
    server.wanted = "Bearer one"
    ask(config, 8, 1, 8, server=server, before={1: "Bearer two"})
    assert count_runs(tmp_path) == 2


def test_a_client_certificate_is_shown_and_the_next_one_on_a_new_connection(
    server: Server, authority: CertificateSet, tmp_path: Path
) -> None:
    (first, wanted), (second, wanted_then) = (certify(sign_client(authority)) for _ in range(2))
    config = write_config(tmp_path, server.server_port, [answer(**first), answer(**second)])
    server.wanted = wanted
    ask(config, 1, 1, 1, server=server, before={1: wanted_then})
    assert count_runs(tmp_path) == 2


def test_a_plugin_gets_its_cluster_where_it_wants_it(server: Server, tmp_path: Path) -> None:
    server.wanted = "Bearer one"
    ask(write_config(tmp_path, server.server_port, [answer("one")], provideClusterInfo=True), 1)
    question = json.loads((tmp_path / "question").read_text())
    assert (question["apiVersion"], question["kind"]) == (V1, "ExecCredential")
    cluster = question["spec"]["cluster"]
    assert cluster.keys() == {"server", "certificate-authority-data", "config"}
    assert cluster["server"] == f"https://127.0.0.1:{server.server_port}"
    assert cluster["config"] == {"realm": "rails"}
    (tmp_path / "runs").unlink()
    ask(write_config(tmp_path, server.server_port, [answer("one")]), 1)
    assert "cluster" not in json.loads((tmp_path / "question").read_text())["spec"]


CERTIFICATE = answer(clientCertificateData="c")


@pytest.mark.parametrize(
    ("printed", "plugin", "message"),
    [
        ("", {"command": "./none", "installHint": "Get it from us."}, r"/none is not there: Get it from us\."),
        ("", {"command": "sh", "args": ["-c", "echo no session >&2; exit 3"]}, "sh ended with 3: no session"),
        ("secret", {}, "login printed no ExecCredential: "),
        (answer(), {}, "printed no token, and no client certificate with its key"),
        (CERTIFICATE, {}, "printed no token, and no client certificate with its key"),
        (answer("t"), {"apiVersion": f"{V1}beta1"}, f"printed {V1}, the kubeconfig says {V1}beta1"),
        (answer("t"), {"interactiveMode": "Always"}, "asks questions and standard input is not a terminal"),
        (answer(clientCertificateData="c", clientKeyData="k"), {}, "client certificate of .*login cannot be used"),
    ],
)
def test_what_a_plugin_does_wrong_is_said(
    server: Server, tmp_path: Path, printed: str, plugin: dict[str, Any], message: str
) -> None:
    config = write_config(tmp_path, server.server_port, [printed], **plugin)
    with pytest.raises(ConfigurationError, match=f"cannot log in as this kubeconfig says: .*{message}") as caught:
        ask(config, 1)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("mode", ["IfAvailable", "Always", "Never"])
def test_on_a_terminal_a_plugin_talks_to_the_user_unless_it_never_does(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    mode: str,
) -> None:
    talks = mode != "Never"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    script = 'printf %s "$KUBERNETES_EXEC_INFO" >&2; exit 3'
    config = write_config(tmp_path, server.server_port, [""], command="sh", args=["-c", script], interactiveMode=mode)
    with pytest.raises(ConfigurationError, match="sh ended with 3") as caught:
        ask(config, 1)
    shown, kept = capfd.readouterr().err, str(caught.value).partition("ended with 3")[2]
    assert (bool(shown), bool(kept)) == (talks, not talks)
    assert json.loads(shown or kept.removeprefix(": "))["spec"] == {"interactive": talks}
