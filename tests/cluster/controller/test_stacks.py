"""A Fabric's stack, applied by a controller on a real API server; the test plays the stack's operator."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.controller.test_run import NAMESPACE, Ground
from tests.cluster.objects import crd
from tests.kinds import installed
from tests.waiting import wait_until
from trackbed.cluster import stacks
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.configuration import load_configuration
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.controller import stack_pass
from trackbed.cluster.controller.objects import FABRICS, FabricObject
from trackbed.cluster.controller.run import Controller
from trackbed.cluster.controller.stack_pass import PassOutcome, StackRequest, run_pass
from trackbed.cluster.controller.stacks import Stacks
from trackbed.cluster.stacks.native.attach import STACK as NATIVE
from trackbed.cluster.stacks.objects import build_manifest
from trackbed.cluster.stacks.rights import build_cluster_role
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

SPACE = "stacked"
GROUP = "stacked.example.com"
"""No other test makes kinds in it: a server names another reason for a kind whose group it serves."""
THINGS = crd("things", "Thing", GROUP)
GATE = f"things.{GROUP}/one"
_numbers = itertools.count()

pytestmark = pytest.mark.slow


def _stages(plan: Plan) -> Iterator[Stage]:
    """A thing that an operator makes ready, then a map that is called by the fabric's MTU."""
    manifest = build_manifest(f"{GROUP}/v1", "Thing", "one", SPACE, spec={"fabric": plan.common.fabric})
    yield Stage("things", (manifest,), (Wait(GATE, "jsonpath={.status.state}=ready", SPACE),))
    yield Stage("maps", (build_manifest("v1", "ConfigMap", f"mtu-{plan.common.mtu_bytes}", SPACE, data={"a": "ours"}),))


PLAYED = Stack(
    "played",
    "",
    NATIVE.traits,
    (),
    (),
    _stages,
    charts=lambda _: (Chart("sriov-network-operator", SPACE),),
    needs_labels=False,
)


@pytest.fixture
def client(api_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingClient]:
    """A server without the stack's kind, and a stack that nobody else has; passes come quickly."""
    module = ModuleType("trackbed.cluster.stacks.played")
    vars(module)["STACK"] = PLAYED
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(stacks.MODULES, "played", "played")
    for name, seconds in (("RETRY", 0.5), ("GATE", 0.5), ("DRIFT", 0.5), ("PACE", 0.0)):
        monkeypatch.setattr(stack_pass, f"{name}_SECONDS", seconds)
    with connect(str(api_server)) as blocking_client:
        installed(blocking_client)
        for name in (NAMESPACE, SPACE):
            blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield blocking_client
        blocking_client.delete(THINGS)


@asynccontextmanager
async def _led(ground: Ground, *names: str) -> AsyncIterator[None]:
    task = asyncio.create_task(Controller(ground.live, NAMESPACE, ground.messages.append, names).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def scene(api_server: Path, act: Callable[[Ground], Awaitable[None]]) -> None:
    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            here = Ground(live, f"stacked{next(_numbers)}", Agents())
            try:
                await act(here)
            finally:
                with suppress(ApiRefusedError):
                    await live.delete(f"{FABRICS}/{here.name}")

    asyncio.run(run())


async def _said(here: Ground, reason: str) -> str:
    """What the Fabric says of its stack, once it says so for this reason."""
    status = await here.until(lambda s: s.get("StackApplied", {}).get("reason") == reason)
    assert status["StackApplied"]["status"] == ("True" if reason == "Applied" else "False")
    return str(status["StackApplied"]["message"])


def _maps(client: BlockingClient) -> dict[str, Any]:
    bodies = client.list("v1", "ConfigMap", SPACE)
    return {body["metadata"]["name"]: body["data"] for body in bodies if body["metadata"]["name"].startswith("mtu-")}


def _ready(client: BlockingClient) -> None:
    metadata = {"name": "one", "namespace": SPACE}
    body: Object = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": metadata, "status": {"state": "ready"}}
    client.apply(body, subresource="/status", manager="operator", force=True)


def test_a_stack_is_applied_stage_by_stage_and_kept_so(client: BlockingClient, api_server: Path) -> None:
    async def act(here: Ground) -> None:
        kubernetes = {"stack": "played", "namespace": SPACE}
        await here.fabric("nobody", kubernetes=kubernetes, mtu=9000)
        async with _led(here, "played"):
            text = await _said(here, "KindMissing")
            assert f"Thing one in {SPACE}: the server has no {GROUP}/v1" in text
            assert "its charts, which the controller does not install: oci://ghcr.io/k8snetworkplumbingwg/sriov" in text
            assert "`trackbed apply cluster played -f FILE` installs them" in text
            await asyncio.to_thread(crds.install_crds, client, [THINGS])
            text = await _said(here, "Waiting")
            assert text.startswith(f"{GATE} is not at jsonpath={{.status.state}}=ready: ")
            assert "what to do: `kubectl describe thing one" in text
            assert _maps(client) == {}
            _ready(client)
            assert await _said(here, "Applied") == "stack played: 3 objects are as planned"
            assert _maps(client) == {"mtu-9000": {"a": "ours"}}

            client.delete(build_manifest("v1", "ConfigMap", "mtu-9000", SPACE))
            await _until(lambda: "mtu-9000" in _maps(client))
            theirs = build_manifest("v1", "ConfigMap", "mtu-9000", SPACE, data={"a": "theirs"})
            client.apply(theirs, manager="somebody", force=True)
            text = await _said(here, "Conflict")
            assert 'conflict with "somebody": .data.a' in text
            assert "`trackbed apply cluster played -f FILE --force` takes them over" in text

            await here.fabric("nobody", kubernetes=kubernetes, mtu=8000)
            await _said(here, "Applied")
            assert _maps(client) == {"mtu-8000": {"a": "ours"}}
            reasons = await here.events(here.name)
            assert reasons[0] == "StackKindMissing"
            assert {"StackWaiting", "StackApplied", "StackConflict"} <= set(reasons)
        async with _led(here):
            await here.until(lambda s: "StackApplied" not in s)
        await here.live.delete(f"{FABRICS}/{here.name}")
        assert _maps(client) == {"mtu-8000": {"a": "ours"}}

    scene(api_server, act)


async def _until(holds: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, holds, "the stack is as it should be")


def test_a_stack_that_the_controller_may_not_apply_is_told_and_native_is_nobodys_business(
    client: BlockingClient, api_server: Path
) -> None:
    async def act(here: Ground) -> None:
        await here.fabric("nobody", kubernetes={"stack": "spiderpool"})
        async with _led(here, "played"):
            assert await _said(here, "NotAllowed") == (
                "this controller applies played (--stacks): add spiderpool there, or "
                "`trackbed apply cluster spiderpool -f FILE`"
            )
            await here.fabric("nobody")
            status = await here.until(lambda s: s["current"] and "StackApplied" not in s)
            assert status["Accepted"]["status"] == "True"

    assert client.read_version()
    scene(api_server, act)


def test_a_paused_fabric_has_its_stack_left_alone(client: BlockingClient, api_server: Path) -> None:
    async def act(here: Ground) -> None:
        await here.fabric("nobody", {"paused": True}, kubernetes={"stack": "played", "namespace": SPACE})
        async with _led(here, "played"):
            await _said(here, "Paused")
            stacks = Stacks(here.live, ("played",), lambda: None)
            fabric = await here.live.get(f"{FABRICS}/{here.name}", FabricObject)
            assert await stacks.reconcile(fabric, _wanted()._replace(paused=True)) > 1  # nobody looks again at once
            await here.fabric("nobody", {"paused": False}, kubernetes={"stack": "played", "namespace": SPACE})
            await _said(here, "KindMissing")

    assert client.read_version()
    scene(api_server, act)


def _wanted() -> StackRequest:
    spec = {"nodes": [{"hosts": "n0"}], "rails": 2, "kubernetes": {"namespace": SPACE}}
    addressing = {"scheme": "shared-subnet", "ipv4": "10.0.0.0/8"}
    head = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "rights"}}
    planned = compute_plan(build_fabric({**head, "spec": {**spec, "rails": "2", "addressing": addressing}}), {})
    return StackRequest("", "played", planned, rolled_back=False, paused=False)


def test_the_rights_that_are_told_are_those_that_a_pass_needs(
    client: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    crds.install_crds(client, [THINGS])
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stacker", "namespace": SPACE}}
    client.apply(account)
    kubeconfig = _kubeconfig(api_server, tmp_path)
    outcome = asyncio.run(run_pass(load_configuration(str(kubeconfig)), _wanted(), None))
    assert outcome.reason == "Forbidden"
    assert f'User "system:serviceaccount:{SPACE}:stacker" cannot get resource "configmaps"' in outcome.message
    assert "`trackbed render rights played -f FILE | kubectl apply -f -` grants it" in outcome.message
    for manifest in build_cluster_role(PLAYED, _wanted().plan, f"{SPACE}:stacker"):
        client.apply(manifest)
    assert asyncio.run(run_pass(load_configuration(str(kubeconfig)), _wanted(), None)).reason == "Waiting"
    _ready(client)
    assert asyncio.run(run_pass(load_configuration(str(kubeconfig)), _wanted(), None)).reason == "Applied"


def _kubeconfig(admin: Path, folder: Path) -> Path:
    """As the admin's, with a token of the account."""
    config = json.loads(admin.read_text())
    config["users"][0]["user"] = {"token": asyncio.run(_token(str(admin)))}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


async def _token(admin: str) -> str:
    path = f"/api/v1/namespaces/{SPACE}/serviceaccounts/stacker/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    async with kube.connect(admin) as live:
        return str((await live.create(path, request))["status"]["token"])


def test_a_pass_that_is_cancelled_ends_at_once(
    client: BlockingClient, api_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(run_pass(load_configuration(str(api_server)), _wanted(), PassOutcome("Applied", "")))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert client.read_version()
    crds.install_crds(client, [THINGS])
    monkeypatch.setattr(stack_pass, "PACE_SECONDS", 60.0)
    before = _maps(client)
    asyncio.run(cancel())
    assert _maps(client) == before
