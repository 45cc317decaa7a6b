"""Objects of an API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest
from click.testing import CliRunner

from trackbed.cli.lint import command
from trackbed.lint.corpus import index_documents
from trackbed.lint.live import to_documents
from trackbed.lint.run import lint

_POOL = {
    "apiVersion": "spiderpool.spidernet.io/v2beta1",
    "kind": "SpiderIPPool",
    "metadata": {"name": "rail0", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"subnet": "10.1.7.0/16"},
    "status": {"totalIPCount": 3},
}


def test_an_object_is_named_where_a_file_would_be() -> None:
    (doc,) = to_documents([_POOL])
    (problem,) = lint(index_documents([doc]))
    assert (problem.file, problem.rule, problem.object) == ("SpiderIPPool/rail0", "host-bits", "SpiderIPPool rail0")
    assert doc.get("status") is None
    assert doc.get("metadata", "managedFields") is None


class _Server(BaseHTTPRequestHandler):
    """An API server that has one kind."""

    def do_GET(self) -> None:
        group = "/apis/spiderpool.spidernet.io/v2beta1"
        answers: dict[str, Any] = {
            group: {"resources": [{"name": "spiderippools", "kind": "SpiderIPPool", "namespaced": False, "verbs": []}]},
            f"{group}/spiderippools": {"metadata": {}, "items": [_POOL]},
        }
        body = answers.get(self.path.partition("?")[0])
        raw = json.dumps(body or {"kind": "Status", "message": "not found", "reason": "NotFound", "code": 404}).encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name http.server calls
        """Quiet."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = Thread(target=server.serve_forever)
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_cluster_is_linted_as_far_as_it_has_the_kinds(kubeconfig: Path) -> None:
    result = CliRunner().invoke(command, ["--cluster", "--kubeconfig", str(kubeconfig), "-o", "json"])
    assert result.exit_code == 1, result.output
    assert [(problem["file"], problem["rule"]) for problem in json.loads(result.stdout)] == [
        ("SpiderIPPool/rail0", "host-bits")
    ]


def test_a_cluster_that_cannot_be_reached_is_said_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["--cluster", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "no usable kubeconfig" in result.stderr


class _Client:
    async def iter_objects(self, api_version: str, kind: str) -> AsyncIterator[dict[str, Any]]:
        assert (api_version, kind) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}}}
        names = {"kind": "Track", "plural": "tracks"}
        spec = {"group": "example.org", "names": names, "scope": "Cluster", "versions": [version]}
        yield {"metadata": {"name": "tracks.example.org"}, "spec": spec}


class _Session:
    client = _Client()

    def __init__(self, kubeconfig: str | None) -> None:
        del kubeconfig

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def collect(self, items: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
        async def gather() -> list[dict[str, Any]]:
            return [item async for item in items]

        return asyncio.run(gather())


def test_files_are_checked_against_the_crds_that_a_cluster_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "track.yaml"
    file.write_text("apiVersion: example.org/v1\nkind: Track\nmetadata: {name: a}\nspec: {}\n")
    assert "no-schema" in CliRunner().invoke(command, [str(file)]).stdout
    monkeypatch.setattr("trackbed.cli.cluster_session.ClusterSession", _Session)
    assert "unknown field spec" in CliRunner().invoke(command, [str(file), "--cluster"]).stdout
