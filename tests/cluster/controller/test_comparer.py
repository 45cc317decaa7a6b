"""Nodes of a Fabric are compared by their reports, on a real API server: condition, findings and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.cluster.controller.test_run import Ground, kubeconfig, scene
from tests.waiting import wait_for
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.controller import comparer
from trackbed.cluster.controller.comparer import Comparer, ComparisonInput
from trackbed.cluster.controller.comparison import compare_nodes
from trackbed.cluster.controller.objects import FABRICS, RAILNODES, FabricObject, RailNode
from trackbed.cluster.controller.slices import build_slices, load_model
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.node.sync.findings import MANAGER

__all__ = ["kubeconfig"]

pytestmark = pytest.mark.slow

PARTS = {"ports": [], "addresses": [], "identity": {}, "devices": [], "firmware": [], "driver": "", "railOrder": []}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparer, "COMPARE_SECONDS", 0.1)


async def report(here: Ground, name: str, mac: str | None, **parts: Any) -> None:
    """Write what the agent of a node reports, of a host that has reached its plan; None for nothing."""
    spec = (await here.live.get(f"{RAILNODES}/{name}", dict[str, Any]))["spec"]
    macs = [{"rail": 1, "mac": mac}]
    content = {"reachedHash": spec["planHash"], **PARTS, "cables": [], "macs": macs, **parts}
    body = {"apiVersion": API_VERSION, "kind": "RailNode", "metadata": {"name": name}}
    await here.live.apply(f"{RAILNODES}/{name}/status", {**body, "status": {"report": content}}, MANAGER)


async def until_consistent(here: Ground, status: str, *texts: str) -> dict[str, Any]:
    """Return the Fabric's status, once condition Consistent has a status and all texts in its message."""
    return await here.until(
        lambda fabric: (
            (condition := fabric.get("Consistent", {})).get("status") == status
            and all(text in condition["message"] for text in texts)
        )
    )


async def prepare(here: Ground, count: int) -> list[str]:
    names = here.nodes(count)
    for name in names:
        await here.node(name)
    await here.fabric(f"{here.name}-[0-{count - 1}]", {"maxUnavailable": count})
    await here.complete()
    return names


async def until_events(here: Ground, wanted: Sequence[str]) -> None:
    reasons: list[str] = []

    async def is_met() -> bool:
        nonlocal reasons
        reasons = [reason for reason in await here.events(here.name) if reason.startswith("Fault")]
        return reasons == list(wanted)

    await wait_for(is_met, lambda: f"events {wanted}: {reasons}; {here.messages}")


def test_a_mac_on_two_nodes_is_told_until_it_is_mended_and_a_silent_node_is_unknown(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        names = await prepare(here, 4)
        await until_consistent(here, "Unknown", "not compared: 4 of 4 nodes")
        for name, mac in zip(names, ("02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:01"), strict=False):
            await report(here, name, mac)
        fault = f"1 fault between nodes: vfs-mac-duplicate: 02:00:00:00:00:01 is at {names[0]} rail1, {names[2]} rail1"
        status = await until_consistent(here, "False", fault, f"not compared: 1 of 4 nodes: {names[3]}: its agent has")
        (finding,) = status["findings"]
        assert (finding["code"], finding["verdict"], finding["endCount"]) == ("vfs-mac-duplicate", "fail", 2)
        assert finding["ends"] == [{"node": names[0], "rail": 1}, {"node": names[2], "rail": 1}]
        await until_events(here, ["FaultBetweenNodes"])
        assert (status["sound"], status["Progressing"]["reason"]) == (4, "Complete")
        await report(here, names[2], "02:00:00:00:00:03")
        status = await until_consistent(here, "Unknown", f"not compared: 1 of 4 nodes: {names[3]}")
        assert status["findings"] == []
        await until_events(here, ["FaultBetweenNodes", "FaultGone"])
        await report(here, names[3], "02:00:00:00:00:04")
        await until_consistent(here, "True", "4 nodes compared")
        await here.fabric(f"{here.name}-[0-3]", {"maxUnavailable": 3})
        status = await here.until(lambda s: s["current"] and "Consistent" in s)
        assert status["Consistent"]["status"] == "True"
        assert await _list_writers(here) == {comparer.FIELD_MANAGER}, (
            "the writer of the roll-out's state leaves it alone"
        )

    scene(kubeconfig, act)


async def _list_writers(here: Ground) -> set[str]:
    """Return the field managers of condition Consistent and the findings."""
    metadata = (await here.live.get(f"{FABRICS}/{here.name}", dict[str, Any]))["metadata"]
    return {
        entry["manager"]
        for entry in metadata["managedFields"]
        if "Consistent" in str(entry["fieldsV1"]) or "f:findings" in str(entry["fieldsV1"])
    }


def test_a_report_that_is_not_understood_is_told_on_its_node_until_it_is(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        names = await prepare(here, 2)
        await report(here, names[0], "02:00:00:00:00:01")
        too_long = {"devices": [{"guid": "0" * 64, "name": "m" * 128}] * 512}
        await report(here, names[1], "02:00:00:00:00:02", **too_long)
        await until_consistent(
            here, "Unknown", f"{names[1]}: its report is not understood: it has more than 65536 bytes"
        )

        async def is_told() -> bool:
            return "ReportPassedOver" in await here.events(names[1])

        await wait_for(is_told, "an event says that the report is passed over")
        condition = await here.condition(names[1], "Compared")
        assert (condition["status"], condition["message"]) == ("False", "it has more than 65536 bytes")
        assert await here.condition(names[0], "Compared") == {}
        await report(here, names[1], "02:00:00:00:00:02")
        await until_consistent(here, "True")

        async def is_gone() -> bool:
            return await here.condition(names[1], "Compared") == {}

        await wait_for(is_gone, "condition Compared is gone")

    scene(kubeconfig, act)


@pytest.mark.parametrize("parts", [{"driver": "\x1b[31m"}, {"driver": "x" * 129}, {"ports": [{"rail": 64}]}])
def test_the_api_server_refuses_a_report_beyond_the_limits(kubeconfig: str, parts: dict[str, Any]) -> None:
    async def act(here: Ground) -> None:
        (name,) = await prepare(here, 1)
        with pytest.raises(ApiRefusedError, match=f"status.report.{next(iter(parts))}"):
            await report(here, name, "02:00:00:00:00:01", **parts)

    scene(kubeconfig, act)


def test_nodes_are_compared_again_only_after_a_change_and_a_new_leader_repeats_no_event(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(here: Ground) -> None:
        names = await prepare(here, 2)
        for name in names:
            await report(here, name, "02:00:00:00:00:01")
        await until_consistent(here, "False")
        await until_events(here, ["FaultBetweenNodes"])
        writes: list[str] = []
        apply = Client.apply

        async def record_write(self: Client, path: str, *arguments: Any, **options: Any) -> Any:
            writes.extend([path] if comparer.FIELD_MANAGER in arguments else [])
            return await apply(self, path, *arguments, **options)

        monkeypatch.setattr(Client, "apply", record_write)
        calls = _count_comparisons(monkeypatch)
        comparison_input, leader = await _read_input(here, names), Comparer(here.live, here.messages.append)
        for _again in range(2):
            await leader.compare(comparison_input)
        monkeypatch.undo()
        assert (writes, calls) == ([], [2])
        await until_events(here, ["FaultBetweenNodes"])

    scene(kubeconfig, act)


async def _read_input(here: Ground, names: list[str]) -> ComparisonInput:
    """Return what a controller that begins to lead reads of the cluster."""
    fabric = await here.live.get(f"{FABRICS}/{here.name}", FabricObject)
    railnodes = {name: await here.live.get(f"{RAILNODES}/{name}", RailNode) for name in names}
    return ComparisonInput(fabric, build_slices(load_model(fabric), await here.slots()), railnodes)


def _count_comparisons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each comparison adds its number of nodes."""
    counts: list[int] = []

    def count_nodes(reports: Any, slices: Any) -> Any:
        counts.append(len(reports))
        return compare_nodes(reports, slices)

    monkeypatch.setattr(comparer, "compare_nodes", count_nodes)
    return counts
