"""Watches the RailNode of this node and keeps host and status in step with it.

    RailNode changed, or CHECK_SECONDS over
      compare --- as planned ----------------------------> Prepared
         |  differs
         +--- may not change ----------------------------> Differs       (the controller decides when)
         +--- may change --> apply --- as planned -------> Prepared
                               |--- only a reboot helps -> NeedsReboot, or Rebooting if this boot may end
                               +--- failed --------------> Retrying, then Failed

Nothing is remembered that matters: an agent that is killed compares again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import now
from trackbed.cluster.daemon.serving import until_one_ends, until_told
from trackbed.cluster.resources.conditions import Condition, put
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, PREPARED, RailNodeSpec, RailNodeStatus
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import parse_node
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync import findings
from trackbed.node.sync.allocations import publish
from trackbed.node.sync.doctor import HOST_MACHINE, examine
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.judge import NextAction, is_firmware_pending, judge_apply, judge_comparison, list_differences

MANAGER = "trackbed-agent"
CHECK_SECONDS = 600.0
"""How often a host that nobody asks about is compared with its plan."""
AGAIN_SECONDS = 20.0
REBOOT_SECONDS = 300.0
"""How long an accepted reboot may take to end this process, before it is asked for again."""

Tell = Callable[[str], None]

_log = logging.getLogger(__name__)


async def serve(client: Client, name: str, boot: str, socket: Path) -> None:
    """Do it until SIGTERM or SIGINT; `name` is this node's, `boot` the one it is in, at `socket` the rails' agent."""
    host = NodeHost()
    preparer = Preparer(client, name, host, boot, _log.info)
    telling = findings.publish(
        client, name, preparer.get_rail_node, partial(examine, HOST_MACHINE, host, socket), _log.info
    )
    async with client:
        await until_told(until_one_ends(preparer.run(), publish(client, name, socket, _log.info), telling))


class _RailNode(msgspec.Struct, frozen=True):
    """The whole RailNode of this node."""

    metadata: ObjectMetadata
    spec: RailNodeSpec
    status: RailNodeStatus = RailNodeStatus()


class Preparer:
    """What this node's agent does."""

    def __init__(self, client: Client, name: str, host: NodeHost, boot: str, tell: Tell) -> None:
        self._client, self._name, self._host, self._boot, self._tell = client, name, host, boot, tell
        self._changed = asyncio.Event()
        self._seen = Reflector(client, PATH, _RailNode, self._changed.set, name=name)
        self._tries: tuple[tuple[str, str], int] = (("", ""), 0)

    def get_rail_node(self) -> tuple[RailNodeSpec, RailNodeStatus] | None:
        """The RailNode as it was seen last."""
        rail = self._seen.objects.get(self._name)
        return None if rail is None else (rail.spec, rail.status)

    async def run(self) -> None:
        """Keep host and RailNode in step, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._seen.run(self._tell))
            await self._seen.synced.wait()
            group.create_task(self._loop())

    async def _loop(self) -> None:
        asked: tuple[str, bool, str, str] | None = None
        due = 0.0
        while True:
            self._changed.clear()
            rail = self._seen.objects.get(self._name)
            if rail is None:
                asked, due = None, monotonic() + CHECK_SECONDS
            elif asked != (now_asked := _asked(rail.spec)):
                due = await self._keep(rail) + monotonic()
                asked = now_asked
            if not await self._woken(due - monotonic()):
                asked = None  # time is over, whatever was written in the RailNode meanwhile: look again

    async def _woken(self, seconds: float) -> bool:
        """Whether the RailNode changed within so many seconds."""
        try:
            async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may swallow a cancellation
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _keep(self, rail: _RailNode) -> float:
        """Compare, do what may be done, and say how it stands; seconds until to look again if nothing changes."""
        try:
            plan = parse_node(rail.spec.plan)
        except SpecError as error:
            broken = Condition(PREPARED, "Unknown", "BadPlan", error.problems[0].message)
            await self._say(rail, broken, None)
            return CHECK_SECONDS
        found = await self._host.request("diff", plan)
        condition, then = judge_comparison(found, rail.spec, self._tried(rail.spec))
        await self._say(rail, condition, found)
        if then == "apply":
            then = await self._apply(rail, plan)
        return {"again": AGAIN_SECONDS}.get(then, CHECK_SECONDS)

    async def _apply(self, rail: _RailNode, plan: NodePlan) -> NextAction:
        found = await self._host.request("apply", plan)
        self._tries = (_try(rail.spec), self._tried(rail.spec) + (0 if found.good else 1))
        condition, then = judge_apply(found, rail.spec, self._boot, self._tried(rail.spec))
        await self._say(rail, condition, found)
        if then == "reboot":
            self._tell(f"rebooting: {condition.message}")
            told = await self._host.request("reboot", plan)
            if told.kind != "same":
                failed = Condition(PREPARED, "False", "Failed", f"it did not reboot: {told.told}")
                await self._say(rail, failed, found)
                return "rest"
            await asyncio.sleep(REBOOT_SECONDS)
            return "again"
        return then

    def _tried(self, spec: RailNodeSpec) -> int:
        return self._tries[1] if self._tries[0] == _try(spec) else 0

    async def _say(self, rail: _RailNode, condition: Condition, found: Outcome | None) -> None:
        """Write the status, where it is another one; a server that does not answer is asked again until it does."""
        held = [one for one in rail.status.conditions if one.type == PREPARED]
        told = RailNodeStatus(
            rail.spec.plan_hash,
            self._boot,
            condition.reason in {"NeedsReboot", "Rebooting"},
            is_firmware_pending(found, rail.status.firmware) if found else rail.status.firmware,
            put(held, condition, now()),
            list_differences(found) if found and condition.status != "True" else (),
        )
        self._tell(f"{condition.reason} {condition.message}".rstrip())
        one = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self._name}}
        body = {**one, "status": msgspec.to_builtins(told)}
        while True:
            with suppress(KubeError):
                await self._client.apply(f"{PATH}/{self._name}/status", body, MANAGER)
                return
            await asyncio.sleep(AGAIN_SECONDS)
            newer = self._seen.objects.get(self._name)
            if newer is None or _asked(newer.spec) != _asked(rail.spec):
                return  # there is something newer to say


def _asked(spec: RailNodeSpec) -> tuple[str, bool, str, str]:
    """What of a RailNode makes this node look again."""
    return spec.plan_hash, spec.may_change, spec.may_reboot, spec.changing_since


def _try(spec: RailNodeSpec) -> tuple[str, str]:
    """A plan and a permission: with another one of either, tries count anew."""
    return spec.plan_hash, spec.changing_since
