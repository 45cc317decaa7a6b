"""Objects that the API server admits and the controller does not understand, as after a change of CRDs.

Each is passed over with a condition, an event and a count, and all others are handled as ever.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from trackbed_lab.kubernetes.blocking import connect

from tests.cluster.controller.test_run import NAMESPACE, SECONDS, Ground, scene
from tests.kinds import installed
from tests.waiting import wait_for
from tools.pages.crds import iter_crds
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.controller.objects import FABRICS, RAILNODES
from trackbed.cluster.resources.railnode import API_VERSION

pytestmark = pytest.mark.slow


@pytest.fixture
def kubeconfig(api_server: Path) -> Iterator[str]:
    """An API server whose CRDs admit any status of a condition."""
    with connect(str(api_server)) as client:
        installed(client, [_admit_any_status(copy.deepcopy(manifest)) for manifest in iter_crds()])
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield str(api_server)
        installed(client)


def _admit_any_status(manifest: Any) -> Any:
    for version in manifest["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        del status["properties"]["conditions"]["items"]["properties"]["status"]["enum"]
    return manifest


async def _write_odd_condition(here: Ground, kind: str, path: str, name: str) -> None:
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}}
    status = {"conditions": [{"type": "Odd", "status": "Perhaps"}]}
    async with asyncio.timeout(SECONDS):
        written = False
        while not written:  # the server takes a moment to serve the other CRD
            with suppress(ApiRefusedError):
                await here.live.apply(f"{path}/{name}/status", {**body, "status": status}, "kubelet")
                written = True


def _count(kind: str) -> float | None:
    return REGISTRY.get_sample_value("trackbed_unreadable_objects", {"kind": kind})


def test_a_railnode_that_is_not_understood_is_held_and_the_others_go_on(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        names = here.nodes(3)
        for name in names:
            await here.node(name)
        await here.fabric(f"{here.name}-[0-2]", {"maxUnavailable": 3})
        await here.complete()
        await _write_odd_condition(here, "RailNode", RAILNODES, names[1])
        message = await here.stage(names[1], "Held")
        assert "Perhaps" in message

        async def is_passed_over() -> bool:
            return "PassedOver" in await here.events(names[1])

        await wait_for(is_passed_over, "an event says that the RailNode was passed over")
        assert _count("railnodes") == 1
        slots = await here.slots()
        await here.fabric(f"{here.name}-[0-2]", {"maxUnavailable": 3}, rails=1)
        await here.until(lambda status: status["current"] and status["sound"] == 2)
        assert await here.slots() == slots

    scene(kubeconfig, act)


def test_a_fabric_that_is_not_understood_keeps_its_nodes_and_others_are_carried_out(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        names = here.nodes(2)
        for name in names:
            await here.node(name)
        await here.fabric(names[0])
        await here.complete()
        odd, here.name = here.name, f"{here.name}-other"
        await _write_odd_condition(here, "Fabric", FABRICS, odd)
        await here.fabric(names[1])
        await here.complete()
        body = await here.live.get(f"{FABRICS}/{odd}", dict[str, Any])
        accepted = next(item for item in body["status"]["conditions"] if item["type"] == "Accepted")
        assert (accepted["status"], "Perhaps" in accepted["message"]) == ("False", True)
        assert await here.live.find(f"{RAILNODES}/{names[0]}", dict[str, Any])
        assert _count("fabrics") == 1
        await here.live.delete(f"{FABRICS}/{odd}")

    scene(kubeconfig, act)
