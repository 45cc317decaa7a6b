"""Watch of this node's RailNode that keeps the host prepared and the status current.

    RailNode changed, or CHECK_SECONDS over
      compare --- as planned ----------------------------> Prepared
         |  differs
         +--- may not change ----------------------------> Differs       (the controller decides when)
         +--- may change --> apply --- as planned -------> Prepared
                               |--- only a reboot helps -> NeedsReboot, or Rebooting if this boot may end
                               +--- failed --------------> Retrying, then Failed

There is no persistent state: an agent that is killed compares again.
"""

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
from trackbed.cluster.api.times import format_now
from trackbed.cluster.daemon.serving import run_until_first_ends, run_until_signal
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
"""Interval between comparisons of an unchanged RailNode's host."""
AGAIN_SECONDS = 20.0
"""Delay before a retry."""
REBOOT_SECONDS = 300.0
"""Time for an accepted reboot to end this process, before it is requested again."""

Report = Callable[[str], None]

_log = logging.getLogger(__name__)


async def serve(client: Client, name: str, boot: str, socket: Path) -> None:
    """Keep the host prepared and publish its state until SIGTERM or SIGINT.

    Args:
        client: the API server.
        name: name of this node.
        boot: id of the current boot.
        socket: socket of the rails' agent.
    """
    host = NodeHost()
    preparer = Preparer(client, name, host, boot, _log.info)
    publishing = findings.publish(
        client, name, preparer.get_rail_node, partial(examine, HOST_MACHINE, host, socket), _log.info
    )
    async with client:
        await run_until_signal(
            run_until_first_ends(preparer.run(), publish(client, name, socket, _log.info), publishing)
        )


class _NodeRailNode(msgspec.Struct, frozen=True):
    """The RailNode of this node."""

    metadata: ObjectMetadata
    spec: RailNodeSpec
    status: RailNodeStatus = RailNodeStatus()


class Preparer:
    """Compares the host with the RailNode's plan, and applies the plan while that is permitted."""

    def __init__(self, client: Client, name: str, host: NodeHost, boot: str, report: Report) -> None:
        self._client, self._name, self._host, self._boot, self._report = client, name, host, boot, report
        self._changed = asyncio.Event()
        self._rail_nodes = Reflector(client, PATH, _NodeRailNode, self._changed.set, name=name)
        self._tries: tuple[tuple[str, str], int] = (("", ""), 0)

    def get_rail_node(self) -> tuple[RailNodeSpec, RailNodeStatus] | None:
        """Return spec and status of the RailNode as last watched, or None."""
        rail_node = self._rail_nodes.objects.get(self._name)
        return None if rail_node is None else (rail_node.spec, rail_node.status)

    async def run(self) -> None:
        """Keep the host prepared and the status current, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rail_nodes.run(self._report))
            await self._rail_nodes.synced.wait()
            group.create_task(self._loop())

    async def _loop(self) -> None:
        handled: tuple[str, bool, str, str] | None = None
        due = 0.0
        while True:
            self._changed.clear()
            rail_node = self._rail_nodes.objects.get(self._name)
            if rail_node is None:
                handled, due = None, monotonic() + CHECK_SECONDS
            elif handled != (triggers := _select_triggers(rail_node.spec)):
                due = await self._prepare(rail_node) + monotonic()
                handled = triggers
            if not await self._wait_for_change(due - monotonic()):
                handled = None  # the interval is over: compare again even if the RailNode did not change

    async def _wait_for_change(self, seconds: float) -> bool:
        """Return whether the RailNode changed within so many seconds."""
        try:
            async with asyncio.timeout(seconds):  # wait_for of Python 3.11 may swallow a cancellation
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _prepare(self, rail_node: _NodeRailNode) -> float:
        """Compare the host, apply the plan if permitted, write the status; return seconds until the next comparison."""
        try:
            plan = parse_node(rail_node.spec.plan)
        except SpecError as error:
            await self._write_status(
                rail_node, Condition(PREPARED, "Unknown", "BadPlan", error.problems[0].message), None
            )
            return CHECK_SECONDS
        outcome = await self._host.request("diff", plan)
        condition, action = judge_comparison(outcome, rail_node.spec, self._count_tries(rail_node.spec))
        await self._write_status(rail_node, condition, outcome)
        if action == "apply":
            action = await self._apply(rail_node, plan)
        return AGAIN_SECONDS if action == "retry" else CHECK_SECONDS

    async def _apply(self, rail_node: _NodeRailNode, plan: NodePlan) -> NextAction:
        outcome = await self._host.request("apply", plan)
        tries = self._count_tries(rail_node.spec) + (0 if outcome.good else 1)
        self._tries = (_identify_attempt(rail_node.spec), tries)
        condition, action = judge_apply(outcome, rail_node.spec, self._boot, tries)
        await self._write_status(rail_node, condition, outcome)
        if action == "reboot":
            self._report(f"rebooting: {condition.message}")
            reboot = await self._host.request("reboot", plan)
            if reboot.kind != "same":
                failed = Condition(PREPARED, "False", "Failed", f"it did not reboot: {reboot.told}")
                await self._write_status(rail_node, failed, outcome)
                return "wait"
            await asyncio.sleep(REBOOT_SECONDS)
            return "retry"
        return action

    def _count_tries(self, spec: RailNodeSpec) -> int:
        return self._tries[1] if self._tries[0] == _identify_attempt(spec) else 0

    async def _write_status(self, rail_node: _NodeRailNode, condition: Condition, outcome: Outcome | None) -> None:
        """Write the status; retry until the API server accepts it or the RailNode has changed."""
        previous = [existing for existing in rail_node.status.conditions if existing.type == PREPARED]
        status = RailNodeStatus(
            rail_node.spec.plan_hash,
            self._boot,
            condition.reason in {"NeedsReboot", "Rebooting"},
            is_firmware_pending(outcome, rail_node.status.firmware) if outcome else rail_node.status.firmware,
            put(previous, condition, format_now()),
            list_differences(outcome) if outcome and condition.status != "True" else (),
        )
        self._report(f"{condition.reason} {condition.message}".rstrip())
        identity = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self._name}}
        body = {**identity, "status": msgspec.to_builtins(status)}
        while True:
            with suppress(KubeError):
                await self._client.apply(f"{PATH}/{self._name}/status", body, MANAGER)
                return
            await asyncio.sleep(AGAIN_SECONDS)
            current = self._rail_nodes.objects.get(self._name)
            if current is None or _select_triggers(current.spec) != _select_triggers(rail_node.spec):
                return  # this status is obsolete


def _select_triggers(spec: RailNodeSpec) -> tuple[str, bool, str, str]:
    """Return the fields of a RailNode whose change triggers a comparison."""
    return spec.plan_hash, spec.may_change, spec.may_reboot, spec.changing_since


def _identify_attempt(spec: RailNodeSpec) -> tuple[str, str]:
    """Return plan and permission; tries are counted anew when either changes."""
    return spec.plan_hash, spec.changing_since
