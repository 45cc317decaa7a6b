"""The client against a server that answers what no API server should, and against logins that fail."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from trackbed.cluster.api.errors import ApiRefusedError, ConfigurationError, KubeError, UnknownKindError

Told = tuple[int, list[tuple[str, str]], bytes]
SOUND: Told = (200, [], b'{"gitVersion": "v1.36.3"}')
PODS: Told = (200, [], b'{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}]}')


class Server(http.server.HTTPServer):
    """Answers what it was given, one after the other; the last one again and again."""

    answers: list[Told]


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives the server's next answer, whatever is asked."""

    server: Server

    def do_GET(self) -> None:
        """Answer."""
        answers = self.server.answers
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the library's name

    def log_message(self, *_: object) -> None:
        """Nothing: pytest shows what matters."""


@pytest.fixture
def server() -> Iterator[Server]:
    running_server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running_server
    running_server.shutdown()
    thread.join()
    running_server.server_close()


Ask = Callable[..., BlockingClient]


@pytest.fixture
def ask(server: Server, tmp_path: Path) -> Iterator[Ask]:
    """A client of the server, after telling it what to answer."""
    clients: list[BlockingClient] = []

    def open_client(*answers: Told, cluster: dict[str, str] | None = None, **user: Any) -> BlockingClient:
        server.answers = list(answers)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster or {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": user or {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (tmp_path / "config").write_text(json.dumps(config))
        clients.append(connect(str(tmp_path / "config")))
        return clients[-1]

    yield open_client
    for client in clients:
        client.__exit__()


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of a client, none of which is made."""
    pauses: list[float] = []

    async def record(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("trackbed.cluster.api.client.asyncio.sleep", record)
    return pauses


@pytest.mark.parametrize("after", ["0", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "soon", "1e3"])
def test_a_busy_server_is_asked_again(ask: Ask, waited: list[float], after: str) -> None:
    assert ask((429, [("Retry-After", after)], b"{}"), SOUND).read_version() == "v1.36.3"
    assert waited == [0.0 if after == "0" else 1.0]


def test_a_server_that_stays_busy_is_given_up(ask: Ask, waited: list[float]) -> None:
    with pytest.raises(ApiRefusedError, match="version: busy") as caught:
        _ = ask((429, [("Retry-After", "3600")], b'{"message": "busy"}')).read_version()
    assert caught.value.status == 429
    assert waited == [5.0] * 7


@pytest.mark.parametrize("body", [b"", b"[1]", b"<html>log in", b'{"resources": 1}', b"{}", b"\xff"])
def test_a_yes_that_is_no_kubernetes_is_an_error(ask: Ask, body: bytes) -> None:
    with pytest.raises(KubeError, match="the server's answer is"):
        ask((200, [], body)).get("v1", "Pod", "x")


def test_a_page_without_items_is_an_error_and_null_is_an_empty_one(ask: Ask) -> None:
    with pytest.raises(KubeError, match="missing required field `items`"):
        list(ask(PODS, (200, [], b'{"metadata": {}}')).list("v1", "Pod"))
    assert list(ask(PODS, (200, [], b'{"items": null, "metadata": {}}')).list("v1", "Pod")) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"[1]", "[1]"), (b'"no"', '"no"'), (b"<html>bad gateway", "<html>bad gateway"), (b"", ""), (b"{}", "no reason")],
)
def test_a_no_in_other_words_keeps_them(ask: Ask, body: bytes, message: str) -> None:
    with pytest.raises(ApiRefusedError) as caught:
        _ = ask((502, [], body)).read_version()
    assert (caught.value.status, caught.value.target, message in str(caught.value)) == (502, "version", True)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (['299 - "a"', '299 - "b"'], ("a", "b")),
        (['299 - "a", 299 - "b, c"'], ("a", "b, c")),
        (['299 - "say \\"a\\" \\\\ b"'], ('say "a" \\ b',)),
        (['299 - "a" "Wed, 21 Oct 2026 07:28:00 GMT"'], ("a",)),
        (["not as it should be"], ("not as it should be",)),
    ],
)
def test_the_texts_of_warnings(ask: Ask, values: list[str], texts: tuple[str, ...]) -> None:
    client = ask(PODS, (201, [("Warning", value) for value in values], b"{}"))
    answer = client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})
    assert (answer.status, answer.warnings) == (201, texts)


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    "user",
    [
        {"tokenFile": "/nowhere/token"},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/nowhere/plugin"}},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "false"}},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "echo", "args": ["hello"]}},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "echo", "args": ["{}"]}},
    ],
    ids=["no token file", "no plugin", "a plugin that fails", "a plugin that talks", "a plugin without a token"],
)
def test_a_login_that_fails_is_told_as_such(ask: Ask, user: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="cannot log in as this kubeconfig says"):
        _ = ask(SOUND, **user).read_version()


@pytest.mark.needs("processes")
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugin_that_logs_in(ask: Ask, version: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    credential = json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": {"token": "t"}})
    plugin = {"apiVersion": api_version, "command": "echo", "args": [credential]}
    assert ask(SOUND, exec=plugin).read_version() == "v1.36.3"


def test_a_context_without_a_user_is_anonymous(ask: Ask, tmp_path: Path) -> None:
    ask(SOUND)
    config = json.loads((tmp_path / "config").read_text())
    del config["contexts"][0]["context"]["user"]
    (tmp_path / "config").write_text(json.dumps(config))
    with connect(str(tmp_path / "config")) as client:
        assert client.read_version() == "v1.36.3"


def test_the_proxy_of_a_cluster_goes_before_that_of_the_environment(
    ask: Ask, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    cluster = {"server": "http://192.0.2.1", "proxy-url": f"http://127.0.0.1:{server.server_port}"}
    assert ask(SOUND, cluster=cluster).read_version() == "v1.36.3"


def test_a_proxy_that_needs_another_package_says_so(ask: Ask) -> None:
    with pytest.raises(ConfigurationError, match="pip install socksio"):
        ask(SOUND, cluster={"server": "http://192.0.2.1", "proxy-url": "socks5://127.0.0.1:1"})


def group(name: str, plural: str, kind: str) -> Told:
    """A server's aggregated discovery."""
    served = {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "singularResource": ""}
    items = [{"metadata": {"name": name}, "versions": [{"version": "v1", "resources": [served]}]}]
    return 200, [], json.dumps({"items": items}).encode()


def test_a_kind_is_looked_up_once_and_one_that_was_not_there_again(ask: Ask) -> None:
    nothing: Told = (200, [], b'{"items": []}')
    client = ask(nothing, nothing, nothing, group("example.com", "pools", "Pool"), (500, [], b"{}"))
    with pytest.raises(UnknownKindError, match="the server serves nothing called pools"):
        client.find_kind("pools")
    kind = client.find_kind("pools")
    assert (kind.group_version, client.find_kind("pools")) == ("example.com/v1", kind)
