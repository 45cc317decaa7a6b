"""Watch of this node's RailNode that keeps the host prepared and the status current.

    RailNode changed, or CHECK_SECONDS over
      compare --- as planned ----------------------------> Prepared
         |  differs
         +--- drift that pods need not notice --> repair --> Prepared, with an event
         +--- may not change ----------------------------> Differs       (the controller decides when)
         +--- may change --> apply --- as planned -------> Prepared
                               |--- only a reboot helps -> NeedsReboot, or Rebooting if this boot may end
                               +--- failed --------------> Retrying, then Failed

There is no persistent state but the status: an agent that is killed compares again. The repairs of the last hour and
the plan that the host had reached are read from the status once, and kept in memory because a watch may lag behind.
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
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.api.times import format_now
from trackbed.cluster.daemon.tasks import run_until_first_ends, run_until_signal
from trackbed.cluster.resources.conditions import Condition, put_condition
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, PREPARED, RailNodeSpec, RailNodeStatus
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import parse_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync import findings
from trackbed.node.sync.allocations import publish_allocations
from trackbed.node.sync.doctor import HOST_MACHINE, examine_host
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.judge import (
    Judgement,
    NextAction,
    is_firmware_pending,
    judge_apply,
    judge_comparison,
    judge_repair,
    list_differences,
)
from trackbed.node.sync.repairer import Repairer

MANAGER = "trackbed-agent"
CHECK_SECONDS = 600.0
"""Interval between comparisons of an unchanged RailNode's host."""
RETRY_SECONDS = 20.0
REBOOT_SECONDS = 300.0
"""Time in which an accepted reboot must end this process before it is requested again."""

_log = logging.getLogger(__name__)


async def serve_node(client: Client, node_name: str, boot_id: str, agent_socket: Path) -> None:
    """Keep the host prepared and publish its state until SIGTERM or SIGINT.

    Args:
        client: the API server.
        node_name: name of this node.
        boot_id: id of the current boot.
        agent_socket: socket of the agent that attaches rails.
    """
    host = NodeHost()
    preparer = Preparer(client, node_name, host, boot_id, _log.info)
    publishing = findings.publish_findings(
        client, node_name, preparer.get_rail_node, partial(examine_host, HOST_MACHINE, host, agent_socket), _log.info
    )
    async with client:
        await run_until_signal(
            run_until_first_ends(
                preparer.run(), publish_allocations(client, node_name, agent_socket, _log.info), publishing
            )
        )


class _RailNode(msgspec.Struct, frozen=True):
    """The parts of a RailNode object that the preparer reads."""

    metadata: ObjectMetadata
    spec: RailNodeSpec
    status: RailNodeStatus = RailNodeStatus()


class Preparer:
    """Compares the host with the RailNode's plan, and applies the plan while that is permitted."""

    def __init__(
        self, client: Client, node_name: str, host: NodeHost, boot_id: str, report: Callable[[str], None]
    ) -> None:
        self._client, self._name, self._host, self._boot, self._report = client, node_name, host, boot_id, report
        self._changed = asyncio.Event()
        self._rail_nodes = Reflector(client, PATH, _RailNode, self._changed.set, name=node_name)
        self._tries: tuple[tuple[str, str], int] = (("", ""), 0)
        self._repairer = Repairer(host, client, node_name)

    def get_rail_node(self) -> findings.WatchedRailNode | None:
        """Return the spec and status of the RailNode as last watched, or None if it does not exist."""
        rail_node = self._rail_nodes.objects.get(self._name)
        return None if rail_node is None else (rail_node.spec, rail_node.status)

    async def run(self) -> None:
        """Keep the host prepared and the status current, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rail_nodes.run(self._report))
            await self._rail_nodes.synced.wait()
            group.create_task(self._prepare_on_changes())

    async def _prepare_on_changes(self) -> None:
        """Prepare the host after each change of the RailNode, and when the next comparison is due."""
        handled: tuple[object, ...] | None = None
        due = 0.0
        while True:
            self._changed.clear()
            rail_node = self._rail_nodes.objects.get(self._name)
            if rail_node is None:
                handled, due = None, monotonic() + CHECK_SECONDS
            elif handled != (triggers := _select_triggers(rail_node.spec)):
                due = await self._prepare_host(rail_node) + monotonic()
                handled = triggers
            if not await self._wait_for_change(due - monotonic()):
                handled = None  # the interval is over: compare again although the RailNode has not changed

    async def _wait_for_change(self, timeout_seconds: float) -> bool:
        """Wait for a change of the RailNode; return False if there was none within the timeout."""
        try:
            async with asyncio.timeout(timeout_seconds):  # wait_for of Python 3.11 may swallow a cancellation
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _prepare_host(self, rail_node: _RailNode) -> float:
        """Compare the host, apply the plan if permitted, write the status; return seconds until the next comparison."""
        self._repairer.load_status(rail_node.status)
        try:
            plan = parse_node(rail_node.spec.plan)
        except SpecError as error:
            await self._write_status(
                rail_node, Condition(PREPARED, "Unknown", "BadPlan", error.problems[0].message), None
            )
            return CHECK_SECONDS
        outcome = await self._host.run_request("diff", plan)
        drift = self._repairer.update_drift(rail_node.spec, outcome)
        judgement = judge_comparison(outcome, rail_node.spec, self._count_tries(rail_node.spec), drift)
        if judgement.action == "repair":
            outcome, failure = await self._repairer.repair_drift(rail_node.metadata.uid, plan, outcome)
            drift = self._repairer.update_drift(rail_node.spec, outcome)
            judgement = judge_repair(judge_comparison(outcome, rail_node.spec, 0, drift), failure)
        await self._write_judgement(rail_node, judgement, outcome)
        action = judgement.action
        if action == "apply":
            action = await self._apply_plan(rail_node, plan, _confirm_removals(rail_node.spec, outcome))
        return RETRY_SECONDS if action == "retry" else CHECK_SECONDS

    async def _apply_plan(self, rail_node: _RailNode, plan: NodePlan, removals: int | None) -> NextAction:
        """Apply the plan and write the status; reboot the host if that is permitted. Return the next action."""
        outcome = await self._host.run_request("apply", plan, removals)
        tries = self._count_tries(rail_node.spec) + (0 if outcome.is_good else 1)
        self._tries = (_identify_attempt(rail_node.spec), tries)
        judgement = judge_apply(outcome, rail_node.spec, self._boot, tries)
        await self._write_judgement(rail_node, judgement, outcome)
        if judgement.action == "reboot":
            self._report(f"rebooting: {judgement.condition.message}")
            reboot = await self._host.run_request("reboot", plan)
            if reboot.kind != "same":
                failed = Condition(PREPARED, "False", "Failed", f"it did not reboot: {reboot.message}")
                await self._write_status(rail_node, failed, outcome)
                return "wait"
            await asyncio.sleep(REBOOT_SECONDS)
            return "retry"
        return judgement.action

    def _count_tries(self, spec: RailNodeSpec) -> int:
        return self._tries[1] if self._tries[0] == _identify_attempt(spec) else 0

    async def _write_judgement(self, rail_node: _RailNode, judgement: Judgement, outcome: Outcome) -> None:
        """Write the status for a judgement; record that the host has reached the plan, if it has."""
        if judgement.is_complete:
            self._repairer.reached = rail_node.spec.plan_hash
        await self._write_status(rail_node, judgement.condition, outcome)

    async def _write_status(self, rail_node: _RailNode, condition: Condition, outcome: Outcome | None) -> None:
        """Write the status; retry until the API server accepts it or the RailNode has changed."""
        previous = [existing for existing in rail_node.status.conditions if existing.type == PREPARED]
        contested = await self._repairer.report_contest(rail_node.metadata.uid, rail_node.status, outcome)
        status = RailNodeStatus(
            rail_node.spec.plan_hash,
            self._boot,
            condition.reason in {"NeedsReboot", "Rebooting"},
            is_firmware_pending(outcome, rail_node.status.firmware) if outcome else rail_node.status.firmware,
            (*put_condition(previous, condition, format_now()), *contested),
            list_differences(outcome) if outcome and condition.status != "True" else (),
            repairs=self._repairer.repairs,
            reached_hash=self._repairer.reached,
        )
        self._report(f"{condition.reason} {condition.message}".rstrip())
        identity = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self._name}}
        body = {**identity, "status": msgspec.to_builtins(status)}
        while True:
            with suppress(KubeError):
                await self._client.apply(join_path(PATH, self._name, "status"), body, MANAGER)
                return
            await asyncio.sleep(RETRY_SECONDS)
            current = self._rail_nodes.objects.get(self._name)
            if current is None or _select_triggers(current.spec) != _select_triggers(rail_node.spec):
                return  # this status is obsolete


def _select_triggers(spec: RailNodeSpec) -> tuple[object, ...]:
    """Return the fields of a RailNode whose change triggers a comparison."""
    permissions = spec.may_change, spec.allow_removal, spec.may_repair, spec.may_reboot
    return spec.plan_hash, *permissions, spec.changing_since, spec.repairs_after


def _confirm_removals(spec: RailNodeSpec, comparison: Outcome) -> int | None:
    """Return the number of removals that the comparison found, if the plan does not fit and the spec permits that."""
    if not spec.allow_removal or "misfit" not in comparison.answer:
        return None
    removals: int = comparison.answer["totals"]["remove"]
    return removals


def _identify_attempt(spec: RailNodeSpec) -> tuple[str, str]:
    """Return the plan hash and the permission; the count of tries restarts when either changes."""
    return spec.plan_hash, spec.changing_since
