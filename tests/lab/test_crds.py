"""CRDs are waited for until the server serves them: Established comes before discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.crds import install_crds

from trackbed.cluster.api.errors import UnknownKindError

DEFINITION = {
    "metadata": {"name": "things.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"kind": "Thing"},
        "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
    },
}


class LateServer:
    """A server whose discovery shows a kind at the third request; it stands for its client, too."""

    def __init__(self) -> None:
        self.dynamic = self
        self.kinds: list[tuple[str, str]] = []

    def create(self, *_: object, **__: object) -> None:
        """Accept a definition."""

    def get(self, *_: object) -> dict[str, Any]:
        """Return a definition that is established at once."""
        return {"status": {"conditions": [{"type": "Established", "status": "True"}]}}

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as BlockingClient does."""
        asyncio.run(coroutine)

    async def get_resource(self, api_version: str, kind: str) -> None:
        """Look a kind up in discovery."""
        self.kinds.append((api_version, kind))
        if len(self.kinds) <= 2:
            raise UnknownKindError("not yet")


def test_a_kind_is_installed_once_discovery_shows_each_served_version() -> None:
    server = LateServer()
    assert install_crds(cast("BlockingClient", server), [DEFINITION]) == 1
    assert server.kinds == [("example.org/v1", "Thing")] * 3
