"""The bases of the image, against a registry that speaks the distribution API on loopback."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tools import image_bases

OLD, NEW = b'{"schemaVersion": 2}', b'{"schemaVersion": 2, "manifests": []}'
TOKEN = "readers-only"  # noqa: S105 - of the registry below


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry(ThreadingHTTPServer):
    """A registry that gives a token to everybody."""

    contents: dict[str, bytes]
    media_type = image_bases.INDEXES[0]


class Handler(BaseHTTPRequestHandler):
    """Answers requests for manifests."""

    server: Registry

    def do_GET(self) -> None:
        """Answer with a token, a manifest, or where to get a token."""
        if self.path.startswith("/token?"):
            self._answer(200, json.dumps({"token": TOKEN}).encode(), {})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            realm = f"http://localhost:{self.server.server_port}/token"
            self._answer(401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}",service="here"'})
        elif content := self.server.contents.get(self.path.rpartition("/")[2]):
            headers = {"Content-Type": self.server.media_type, "Docker-Content-Digest": digest_of(OLD)}
            self._answer(200, content, headers)
        else:
            self._answer(404, b"", {})

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Handler) as server:
        server.contents = {"3.13-slim": NEW, digest_of(OLD): OLD}
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def render(registry: Registry, content: bytes) -> str:
    base = f"localhost:{registry.server_port}/library/python:3.13-slim"
    return f"# bases\nARG PYTHON={base}@{digest_of(content)}\nARG BASES=pinned\nFROM ${{PYTHON}}\n"


def test_a_base_that_the_registry_has_is_verified(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    image_bases.verify_bases(render(registry, OLD))
    assert capsys.readouterr().out == f"PYTHON: library/python@{digest_of(OLD)} is there\n"


def test_a_base_is_renewed_to_the_digest_of_what_its_tag_names_whatever_a_header_says(registry: Registry) -> None:
    assert image_bases.renew_bases(render(registry, OLD)) == render(registry, NEW)


def test_a_registry_that_sends_something_else_for_a_digest_is_found_out(registry: Registry) -> None:
    registry.contents[digest_of(OLD)] = NEW
    with pytest.raises(ValueError, match=f"sends {digest_of(NEW)} for PYTHON="):
        image_bases.verify_bases(render(registry, OLD))


def test_a_base_that_is_gone_is_told(registry: Registry) -> None:
    with pytest.raises(ValueError, match="404 Not Found"):
        image_bases.verify_bases(render(registry, b"gone"))


def test_the_image_of_one_architecture_is_refused(registry: Registry) -> None:
    registry.media_type = "application/vnd.oci.image.manifest.v1+json"
    with pytest.raises(ValueError, match="not the index of an image for several architectures"):
        image_bases.renew_bases(render(registry, OLD))


@pytest.mark.needs("processes")
def test_the_use_is_told() -> None:
    argv = [sys.executable, "-m", "tools.image_bases"]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "use: python -m tools.image_bases verify|renew\n")
