"""RailNodes are deleted with their Fabric, and only if the API server itself has no such Fabric."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from tests.waiting import wait_for
from trackbed.cluster.api.client import Client
from trackbed.cluster.controller import run
from trackbed.cluster.controller.objects import FABRICS, RAILNODES
from trackbed.cluster.controller.run import Controller

RAILNODE = {"metadata": {"name": "gpu-0", "resourceVersion": "7"}, "spec": {"fabric": "train", "slot": 0}}


class LaggingServer(Client):
    """A server with one RailNode, whose lists have no Fabric; it has the Fabric nevertheless if `has_fabric`."""

    def __init__(self, fabric: str, *, has_fabric: bool) -> None:
        self.railnode = {**RAILNODE, "spec": {"fabric": fabric, "slot": 0}}
        self.has_fabric = has_fabric
        self.fabrics_read: list[str] = []
        self.deleted: list[str] = []

    async def iter_pages(
        self, path: str, model: type[Any], params: Mapping[str, str], accept: str = ""
    ) -> AsyncIterator[Any]:
        """The only page."""
        del params, accept
        items = [self.railnode] if path == RAILNODES else []
        listing = {"metadata": {"resourceVersion": "10"}, "items": items}
        yield msgspec.json.decode(msgspec.json.encode(listing), type=model)

    async def iter_lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """A stream on which nothing happens."""
        del path, params
        await asyncio.Event().wait()
        yield b""

    async def find(self, path: str, model: type[Any]) -> Any:
        """The Fabric, if there is one."""
        self.fabrics_read.append(path)
        return (
            msgspec.convert({"metadata": {"name": "train", "resourceVersion": "9"}}, model) if self.has_fabric else None
        )

    async def delete(self, path: str) -> bool:
        """Delete nothing, and note it."""
        self.deleted.append(path)
        return True


def control(server: LaggingServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a controller has deleted once it has deleted something, or read the Fabric in two passes."""
    monkeypatch.setattr(run, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(run, "SETTLE_SECONDS", 0.0)

    async def act() -> None:
        task = asyncio.create_task(Controller(server, "trackbed-system", lambda _: None).run())

        async def has_decided() -> bool:
            if task.done():
                task.result()
            return bool(server.deleted) or len(server.fabrics_read) > 1

        await wait_for(has_decided, "the controller reads the Fabric of an orphan, or deletes it")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(act())
    return server.deleted


def test_a_railnode_is_kept_while_the_server_has_its_fabric_whatever_the_watch_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = LaggingServer("train", has_fabric=True)
    assert control(server, monkeypatch) == []
    assert set(server.fabrics_read) == {f"{FABRICS}/train"}


@pytest.mark.parametrize("fabric", ["train", "", "a/b"], ids=["deleted", "no name", "a path"])
def test_a_railnode_is_deleted_once_the_server_has_no_such_fabric(fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert control(LaggingServer(fabric, has_fabric=False), monkeypatch)[0] == f"{RAILNODES}/gpu-0"
