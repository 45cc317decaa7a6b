"""Repair of drift in place: the agent's memory of repairs, the changes on the host, and the events about them."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.times import format_now
from trackbed.cluster.resources.conditions import Condition, find_condition, put_condition
from trackbed.cluster.resources.railnode import (
    API_VERSION,
    CONTESTED,
    KIND,
    PREPARED,
    RailNodeSpec,
    RailNodeStatus,
    Repair,
)
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet.outcome import Outcome
from trackbed.node.sync.contest import (
    SettingKey,
    add_repairs,
    build_contested_condition,
    list_contested,
    update_repairs,
)
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.judge import Drift, describe_differences, list_repairs

_log = logging.getLogger(__name__)

_REPORTER = "trackbed.dev/agent"
_MAX_SINGLE_REPAIRS = 20
"""Maximum number of settings that are repaired one by one after all together were refused."""
_COMPLETED = frozenset({"applied", "left", "same"})
"""Outcomes of a repair that ran to its end."""


class Repairer:
    """Repairs one node's host in place, and remembers which plan it had reached and which repairs did not last."""

    def __init__(self, host: NodeHost, client: Client, node_name: str) -> None:
        self._host, self._client, self._name = host, client, node_name
        self._is_loaded = False
        self.reached = ""
        """Digest of the plan that the host had reached last."""
        self.repairs: tuple[Repair, ...] = ()
        """Repairs of the last hour."""

    def load_status(self, status: RailNodeStatus) -> None:
        """Read reached plan and repairs from the status, once: afterwards the memory is newer than a watch.

        A status without `reachedHash` is of an earlier version; its condition says what the host had reached.
        """
        if not self._is_loaded:
            is_sound = find_condition(status.conditions, PREPARED).status == "True"
            self.reached = status.reached_hash or (status.observed_hash if is_sound else "")
            self.repairs, self._is_loaded = status.repairs, True

    def update_drift(self, spec: RailNodeSpec, outcome: Outcome) -> Drift:
        """Return what is known of the host after a comparison, and forget repairs that are older than an hour.

        A host whose own copy of the plan is this one had reached it, whatever digest another version gives it.
        """
        differing = list_repairs(outcome) if outcome.kind == "differs" else ()
        self.repairs = update_repairs(self.repairs, differing, spec.repairs_after, datetime.now(UTC))
        is_same_digest = bool(spec.plan_hash) and self.reached == spec.plan_hash
        return Drift(is_same_digest or bool(outcome.answer.get("has_plan")), list_contested(self.repairs))

    async def repair_drift(self, uid: str, plan: NodePlan, comparison: Outcome) -> tuple[Outcome, str]:
        """Repair what differs and is not contested; return a new comparison, and why a repair failed.

        If all together are refused, each is repaired alone, so that one does not keep the others from it.
        """
        contested = list_contested(self.repairs)
        due = [key for key in list_repairs(comparison) if key not in contested]
        _log.info("repairing in place: %s", "; ".join(f"{step}: {subject}" for step, subject in due))
        outcome = await self._host.repair_settings(plan, due)
        failure = _explain_failure(outcome)
        repaired = due
        if outcome.kind not in _COMPLETED and len(due) > 1:
            repaired = due[:_MAX_SINGLE_REPAIRS]
            outcomes = [await self._host.repair_settings(plan, [key]) for key in repaired]
            failure = next(filter(None, map(_explain_failure, outcomes)), "")
        self.repairs = add_repairs(self.repairs, repaired, datetime.now(UTC))
        again = await self._host.run_request("diff", plan)
        await self._report_repair(uid, comparison, repaired, failure)
        return again, failure

    async def report_contest(self, uid: str, status: RailNodeStatus, outcome: Outcome | None) -> tuple[Condition, ...]:
        """Return condition Contested, if there is one; write an event when it begins."""
        descriptions = describe_differences(outcome) if outcome else {}
        writers = outcome.answer.get("writers", {}) if outcome else {}
        new = build_contested_condition(self._name, self.repairs, descriptions, writers)
        if new is None:
            return ()
        old = find_condition(status.conditions, CONTESTED)
        if old.status != "True":
            await self._record_event(uid, Event(CONTESTED, new.message, "Warning", _REPORTER, "Repair"))
        return put_condition([old] if old.last_transition_time else [], new, format_now())

    async def _report_repair(self, uid: str, comparison: Outcome, keys: Sequence[SettingKey], failure: str) -> None:
        descriptions = describe_differences(comparison)
        step, subject = keys[0]
        others = f"; and {len(keys) - 1} more" if len(keys) > 1 else ""
        note = f"{step}: {subject} was {descriptions.get((step, subject), 'another file')}{others}"
        if failure:
            await self._record_event(uid, Event("NotRepaired", f"{note}; {failure}", "Warning", _REPORTER, "Repair"))
        else:
            await self._record_event(uid, Event("Repaired", note, "Normal", _REPORTER, "Repair"))

    async def _record_event(self, uid: str, event: Event) -> None:
        regarding = {"apiVersion": API_VERSION, "kind": KIND, "name": self._name, "uid": uid}
        await record_event(self._client, regarding, event)


def _explain_failure(repair: Outcome) -> str:
    """Return why a repair failed, or what its driver refused; empty if neither."""
    if repair.kind not in _COMPLETED:
        return repair.message
    return next((str(change.get("advice", "")) for change in repair.answer.get("changes", ())), "")
