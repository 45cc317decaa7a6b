"""Pods with rails, as the agent tells of them, in the RailNode's status on a real API server."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import connect

from tests.kinds import installed
from trackbed.cluster.api import client as kube
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, Allocation
from trackbed.node.sync.allocations import MAX_ALLOCATIONS, list_allocations, publish_allocations

ONE = {
    "pod": "train/w-0",
    "done": True,
    "ports": [
        {"rail": 1, "addresses": [{"text": "10.1.0.5/16"}]},
        {"rail": 0, "addresses": [{"text": "10.0.0.5/16"}, {"text": "fd00::5/64"}]},
    ],
}


def test_rails_and_addresses_stand_in_rail_order() -> None:
    (allocation,) = list_allocations({"attachments": [ONE]})
    assert allocation == Allocation("train", "w-0", (0, 1), ("10.0.0.5", "fd00::5", "10.1.0.5"))


@pytest.mark.parametrize("other", [{"pod": ""}, {"done": False}])
def test_what_is_no_pods_or_not_done_is_left_out(other: dict[str, Any]) -> None:
    assert list_allocations({"attachments": [{**ONE, **other}]}) == ()


def test_the_order_in_which_pods_came_does_not_matter_and_their_number_is_bounded() -> None:
    pods = [{**ONE, "pod": f"train/w-{number:03}"} for number in range(MAX_ALLOCATIONS + 50)]
    allocations = list_allocations({"attachments": pods[::-1]})
    assert (allocations, len(allocations)) == (list_allocations({"attachments": pods}), MAX_ALLOCATIONS)


@contextmanager
def agent(path: Path, status: dict[str, Any]) -> Iterator[None]:
    """A socket that answers as an agent does: length, a byte, the status."""
    body = msgspec.json.encode(status)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    asker, _ = listener.accept()
                except OSError:
                    return
                with asker:
                    asker.recv(4096)
                    asker.sendall(len(body).to_bytes(4, "big") + b"\0" + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def test_they_are_told_in_the_railnode_beside_what_others_say_there(api_server: Path, tmp_path: Path) -> None:
    reports: list[str] = []

    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            work = asyncio.create_task(publish_allocations(live, "allocated", tmp_path / "agent.sock", reports.append))
            async with asyncio.timeout(30):
                status: dict[str, Any] = {}
                while not status.get("allocations"):
                    status = (await live.get(f"{PATH}/allocated", dict[str, Any]))["status"]
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            assert status["observedHash"] == "kept"
            assert status["allocations"][0]["addresses"] == ["10.0.0.5", "fd00::5", "10.1.0.5"]

    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "allocated"}}
    with connect(str(api_server)) as client:
        installed(client)
        client.apply({**body, "spec": {"fabric": "train", "slot": 77}})
        client.apply({**body, "status": {"observedHash": "kept"}}, subresource="/status", manager="trackbed-agent")
    with agent(tmp_path / "agent.sock", {"attachments": [ONE]}):
        asyncio.run(run())
    assert reports == []


def test_an_agent_that_is_not_there_is_told_once(api_server: Path, tmp_path: Path) -> None:
    reports: list[str] = []
    requested = asyncio.Event()

    def tell(trouble: str) -> None:
        reports.append(trouble)
        requested.set()

    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            work = asyncio.create_task(publish_allocations(live, "nobody", tmp_path / "none.sock", tell))
            await asyncio.wait_for(requested.wait(), 30)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    asyncio.run(run())
    assert reports == ["allocations are not published: [Errno 2] No such file or directory"]
