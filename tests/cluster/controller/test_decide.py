"""A simulated cluster with a mind of its own: whatever happens in whatever order, the rules of a roll-out hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.cluster.controller.decide import Decision, decide
from trackbed.cluster.controller.objects import CORDONED, PREPARING_SINCE, NodeObject, RailNode
from trackbed.cluster.controller.stage import (
    IN_PROGRESS,
    NodeSnapshot,
    PlanSlice,
    RolloutRules,
    Stage,
    WaveRules,
    find_stage,
)
from trackbed.cluster.resources.railnode import PAUSED, RETRY, TAINT

START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = RolloutRules("train", 1, 2, 1, 1, 2, 3600, 3600, 7200, WaveRules(2, 1))


def rail(**fields: object) -> RailNode:
    """A RailNode as its JSON would be read; keys with a dot go below."""
    spec: dict[str, object] = {"fabric": "train", "slot": 0, "planHash": "new", "mayRepair": True}
    status: dict[str, object] = {"observedHash": "new", "boot": "first"}
    prepared = fields.pop("prepared", "Differs")
    status["conditions"] = [
        {
            "type": "Prepared",
            "status": "True" if prepared == "AsPlanned" else "False",
            "reason": prepared,
            "message": "m",
        }
    ]
    annotations = fields.pop("annotations", {})
    status["firmware"] = fields.pop("differsInFirmware", False)
    for key, value in fields.items():
        (status if key in {"observedHash", "boot", "needsReboot"} else spec)[key] = value
    metadata = {"name": "n0", "resourceVersion": "1", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, RailNode)


def node(*marks: str, begun: bool = False, ready: bool = True, cordoned: bool = False) -> NodeObject:
    """A node as its JSON would be read; marks are annotations, NAME or NAME=VALUE."""
    spec = {"taints": [{"key": TAINT, "effect": "NoSchedule"}] if begun else [], "unschedulable": cordoned}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    metadata = {"name": "n0", "resourceVersion": "1", "annotations": dict(mark.partition("=")[::2] for mark in marks)}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, NodeObject)


HOUR, HALF = timedelta(hours=1, seconds=1), timedelta(minutes=31)
STAMP = START.strftime("%Y-%m-%dT%H:%M:%SZ")
WANTED = PlanSlice(0, 0, "new")


@pytest.mark.parametrize(
    ("wanted", "rail_", "node_", "at", "expected", "why"),
    [
        (WANTED, None, node(), START, Stage.NEW, ""),
        (WANTED, rail(fabric="other"), node(), START, Stage.TAKEN, "fabric other has this node; take it out there"),
        (WANTED, rail(planHash="old"), node(), START, Stage.OUTDATED, ""),
        (WANTED, rail(leftAt=STAMP), node(), START, Stage.OUTDATED, ""),
        (WANTED, rail(), None, START, Stage.ABSENT, "the cluster has no such node"),
        (WANTED, rail(observedHash="old"), node(), START, Stage.CHECKING, "its agent has not compared it"),
        (WANTED, rail(prepared="AsPlanned"), node(), START, Stage.SOUND, ""),
        (WANTED, rail(prepared="AsPlanned"), node(begun=True), START, Stage.FINISHING, ""),
        (WANTED, rail(prepared="AsPlanned", mayChange=True), node(), START, Stage.FINISHING, ""),
        (WANTED, rail(prepared="AsPlanned"), node(CORDONED, cordoned=True), START, Stage.FINISHING, ""),
        (WANTED, rail(prepared="AsPlanned"), node(CORDONED), START, Stage.FINISHING, ""),
        (WANTED, rail(prepared="AsPlanned"), node(cordoned=True), START, Stage.SOUND, ""),
        (WANTED, rail(prepared="AsPlanned", observedHash="old"), node(), START, Stage.CHECKING, ""),
        (WANTED, rail(), node(), START, Stage.WAITING, "m"),
        (WANTED, rail(prepared="DoesNotFit"), node(), START, Stage.HELD,
         "the plan does not fit it: m; correct the Fabric, or apply it all the same: kubectl annotate --overwrite "),
        (WANTED, rail(), node(ready=False), START, Stage.HELD, "its kubelet is not ready; m"),
        (WANTED, rail(), node(cordoned=True), START, Stage.HELD, "somebody has cordoned it; m"),
        (WANTED, rail(), node(PAUSED), START, Stage.HELD, "somebody has paused it; m"),
        (WANTED, rail(annotations={PAUSED: ""}), node(), START, Stage.HELD, "somebody has paused it; m"),
        (WANTED, rail(), node(begun=True), START, Stage.DRAINING, ""),
        (WANTED, rail(), node(CORDONED, cordoned=True), START, Stage.DRAINING, ""),
        (WANTED, rail(), node(CORDONED), START, Stage.WAITING, "m"),
        (WANTED, rail(), node(f"{PREPARING_SINCE}={STAMP}", begun=True), START + HOUR,
         Stage.FAILED, "pods did not leave within 60 minutes (rollout.drainMinutes); see to them"),
        (WANTED, rail(annotations={RETRY: ""}), node(f"{PREPARING_SINCE}={STAMP}", begun=True), START + HOUR,
         Stage.RETRYING, ""),
        (WANTED, rail(mayChange=True), node(begun=True), START, Stage.CHANGING, "m"),
        (WANTED, rail(mayChange=True, prepared="Failed"), node(begun=True), START, Stage.FAILED,
         "m; mend it, then kubectl annotate railnode n0 trackbed.dev/retry="),
        (WANTED, rail(mayChange=True, prepared="Failed", observedHash="old"), node(begun=True), START,
         Stage.CHANGING, "m"),
        (WANTED, rail(mayChange=True, prepared="Failed", annotations={RETRY: ""}), node(begun=True), START,
         Stage.RETRYING, ""),
        (WANTED, rail(mayChange=True, changingSince=STAMP), node(begun=True), START + HOUR, Stage.FAILED,
         "not prepared 60 minutes after it was drained or told to reboot: m; then kubectl annotate"),
        (WANTED, rail(mayChange=True, needsReboot=True), node(begun=True), START, Stage.NEEDS_REBOOT, "m"),
        (WANTED, rail(mayChange=True, needsReboot=True, mayReboot="first"), node(begun=True), START,
         Stage.REBOOTING, "m"),
        (WANTED, rail(mayChange=True, needsReboot=True, mayReboot="zeroth"), node(begun=True), START,
         Stage.NEEDS_REBOOT, "m"),
        (WANTED, rail(mayChange=True, needsReboot=True, mayReboot="zeroth", reboots=2), node(begun=True), START,
         Stage.FAILED, "it asks for another reboot after 2 (rollout.reboots): m; mend it"),
        (None, rail(), node(), START, Stage.LEAVING, ""),
        (None, rail(leftAt=STAMP), node(begun=True), START, Stage.LEAVING, ""),
        (None, rail(leftAt=STAMP), node(CORDONED, cordoned=True), START, Stage.LEAVING, ""),
        (None, rail(leftAt=STAMP), node(), START, Stage.LEFT, "its addresses are kept for it until 2 h after"),
        (None, rail(leftAt=STAMP), None, START + 3 * HOUR, Stage.GONE, ""),
    ],
)  # fmt: skip
def test_where_a_node_stands(  # noqa: PLR0913, PLR0917 - a row has these cells
    wanted: PlanSlice | None, rail_: RailNode | None, node_: NodeObject | None, at: datetime, expected: Stage, why: str
) -> None:
    stage, reason = find_stage(NodeSnapshot("n0", wanted, rail_, node_), RULES, at)
    assert stage is expected
    assert reason.startswith(why)


def test_a_plan_that_does_not_fit_begins_once_the_fabric_allows_removals() -> None:
    rules = msgspec.structs.replace(RULES, allow_removal=True)
    snapshot = NodeSnapshot("n0", WANTED, rail(prepared="DoesNotFit"), node())
    assert decide([snapshot], RULES, START).moves == ()
    _, message = find_stage(snapshot, RULES, START)
    assert message.endswith("kubectl annotate --overwrite fabric train trackbed.dev/allow-removal=1")
    assert decide([snapshot], rules, START).moves == (("begin", "n0"),)


def test_a_node_that_was_cordoned_by_the_controller_is_not_held() -> None:
    held = node(CORDONED, cordoned=True, begun=True)
    assert find_stage(NodeSnapshot("n0", WANTED, rail(), held), RULES, START)[0] is Stage.DRAINING


@pytest.mark.parametrize(("has_pods", "moves"), [(False, (("drain", "n0"),)), (True, ())])
def test_a_node_fails_by_its_deadline_for_good_only_if_pods_are_on_it(
    has_pods: bool, moves: tuple[tuple[str, str], ...]
) -> None:
    late = node(f"{PREPARING_SINCE}={STAMP}", begun=True)
    decision = decide([NodeSnapshot("n0", WANTED, rail(), late, has_pods=has_pods)], RULES, START + HOUR)
    assert (decision.nodes[0].stage, decision.moves) == (Stage.FAILED, moves)


OTHERS = "NodeMaintenance disk has it in maintenance (broken)"


@pytest.mark.parametrize(
    ("wanted", "rail_", "node_", "at", "expected", "why"),
    [
        (WANTED, rail(), node(), START, Stage.HELD, f"{OTHERS}; m"),
        (WANTED, rail(prepared="AsPlanned"), node(), START, Stage.SOUND, ""),
        (WANTED, rail(), node(f"{PREPARING_SINCE}={STAMP}", begun=True), START, Stage.HELD, OTHERS),
        (WANTED, rail(), node(f"{PREPARING_SINCE}={STAMP}", begun=True), START + HOUR, Stage.EXTENDED, OTHERS),
        (WANTED, rail(), node(f"{PREPARING_SINCE}={STAMP}", begun=True), START + HALF, Stage.EXTENDED, OTHERS),
        (WANTED, rail(mayChange=True), node(begun=True), START, Stage.CHANGING, "m"),
        (WANTED, rail(mayChange=True, needsReboot=True), node(begun=True), START, Stage.HELD, f"{OTHERS}; m"),
        (WANTED, rail(mayChange=True, needsReboot=True, changingSince=STAMP), node(begun=True), START + HOUR,
         Stage.HELD, f"{OTHERS}; m"),
        (WANTED, rail(mayChange=True, needsReboot=True, mayReboot="first"), node(begun=True), START,
         Stage.REBOOTING, "m"),
        (WANTED, rail(mayChange=True, prepared="Failed"), node(begun=True), START, Stage.FAILED, "m; mend it"),
        (WANTED, rail(prepared="AsPlanned"), node(begun=True), START, Stage.HELD, OTHERS),
        (None, rail(), node(begun=True), START, Stage.HELD, OTHERS),
        (None, rail(leftAt=STAMP), node(), START, Stage.LEFT, "its addresses are kept"),
    ],
)  # fmt: skip
def test_a_node_that_others_have_in_maintenance_ends_its_step_and_goes_no_further(  # noqa: PLR0913, PLR0917 - a row
    wanted: PlanSlice | None, rail_: RailNode, node_: NodeObject, at: datetime, expected: Stage, why: str
) -> None:
    stage, reason = find_stage(NodeSnapshot("n0", wanted, rail_, node_, maintenance=OTHERS), RULES, at)
    assert stage is expected
    assert reason.startswith(why)


def test_a_node_that_drains_when_others_are_done_has_its_full_time_again() -> None:
    late = node(f"{PREPARING_SINCE}={STAMP}", begun=True)
    snapshot = NodeSnapshot("n0", WANTED, rail(), late, maintenance=OTHERS)
    assert decide([snapshot], RULES, START + HOUR).moves == (("begin", "n0"),), "which stamps it anew"


def test_a_reboot_that_waited_longer_than_a_node_may_take_is_allowed_in_the_end() -> None:
    snapshot = NodeSnapshot("n0", WANTED, rail(mayChange=True, needsReboot=True, changingSince=STAMP), node(begun=True))
    assert decide([snapshot], RULES, START + HOUR).moves == (("reboot", "n0"),)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Drifted", "drifted, and not repaired in place while it is paused or under maintenance: m"),
        ("NotRepaired", "drifted, and the repair in place failed; its agent tries again: m"),
        ("ByHand", "not drained for what only a person can change: m"),
        ("Contested", "another program sets it: m"),
    ],
)
def test_a_node_is_not_drained_for_what_no_drain_would_mend(reason: str, message: str) -> None:
    snapshot = NodeSnapshot("n0", WANTED, rail(prepared=reason), node())
    assert find_stage(snapshot, RULES, START) == (Stage.HELD, message)
    assert decide([snapshot], replace_rules(canary=0), START).moves == ()
    retried = NodeSnapshot("n0", WANTED, rail(prepared=reason, annotations={RETRY: ""}), node())
    assert decide([retried], RULES, START).moves == (("retry", "n0"),)


@pytest.mark.parametrize(
    ("rail_", "node_", "paused", "maintenance", "moves"),
    [
        (rail(prepared="AsPlanned", mayRepair=False), node(), False, "", [("permit", "n0")]),
        (rail(prepared="AsPlanned"), node(), False, "", []),
        (rail(prepared="AsPlanned"), node(), True, "", [("permit", "n0")]),
        (rail(prepared="AsPlanned"), node(PAUSED), False, "", [("permit", "n0")]),
        (rail(prepared="AsPlanned", annotations={PAUSED: ""}), node(), False, "", [("permit", "n0")]),
        (rail(prepared="AsPlanned"), node(), False, "maintenance", [("permit", "n0")]),
        (rail(prepared="AsPlanned", mayRepair=False), node(), True, "", []),
        (rail(prepared="Drifted", mayRepair=False), node(), False, "", [("permit", "n0")]),
        (rail(fabric="other", mayRepair=False), node(), False, "", []),
    ],
    ids=["sound", "permitted", "paused Fabric", "paused Node", "paused RailNode", "maintenance", "still paused",
         "drifted before", "another Fabric's"],
)  # fmt: skip
def test_drift_may_be_repaired_unless_somebody_paused_it_or_works_there(
    rail_: RailNode,
    node_: NodeObject,
    paused: bool,
    maintenance: str,
    moves: list[tuple[str, str]],
) -> None:
    snapshot = NodeSnapshot("n0", WANTED, rail_, node_, maintenance=maintenance)
    assert list(decide([snapshot], replace_rules(paused=paused), START).moves) == moves


def test_a_taint_that_somebody_took_away_comes_back() -> None:
    snapshot = NodeSnapshot("n0", WANTED, rail(mayChange=True), node())
    assert decide([snapshot], RULES, START).moves == (("guard", "n0"),)


def test_a_taint_that_somebody_took_away_during_the_drain_comes_back_although_no_other_node_may_begin() -> None:
    snapshot = NodeSnapshot("n0", WANTED, rail(), node(CORDONED, cordoned=True))
    decision = decide([snapshot], replace_rules(max_unavailable=1), START)
    assert (decision.moves, decision.halt_reason) == ((("guard", "n0"),), "")


@dataclass(slots=True)
class Simulated:
    """A node, its host and its pods, all of whose states change by themselves or by a move."""

    name: str
    piece: PlanSlice
    needs_reboot: bool = False
    fails: bool = False
    flash: bool = False
    """Whether its NICs' firmware differs, too."""
    in_wave: bool = False
    ready: bool = True
    others: bool = False
    """Whether others have it in maintenance."""
    pods: int = 0
    exists: bool = False
    sent: str = ""
    observed: str = ""
    applied: str = "old"
    begun: bool = False
    cordoned: bool = False
    may_change: bool = False
    may_reboot: str = ""
    reboots: int = 0
    changed: int = 0
    may_repair: bool = False
    boot: int = 1
    rebooted: str = ""
    changes: list[str] = field(default_factory=list)

    def snapshot(self) -> NodeSnapshot:
        """The node as a controller sees it."""
        reason = "AsPlanned"
        needs = False
        if self.applied != self.observed:
            reason = "Differs"
            if self.may_change and self.fails:
                reason = "Failed"
            needs = self.may_change and self.needs_reboot and self.rebooted != self.observed and not self.fails
        spec = {"slot": self.piece.slot, "planHash": self.sent, "mayChange": self.may_change, "reboots": self.reboots}
        rail_spec = {"mayReboot": self.may_reboot, "changedGeneration": self.changed, "firmware": self.in_wave}
        rail_spec["mayRepair"] = self.may_repair
        rail_spec["differsInFirmware"] = self.flash and self.applied != self.observed
        status = {"observedHash": self.observed, "boot": f"b{self.boot}", "needsReboot": needs}
        made = rail(prepared=reason, **spec, **rail_spec, **status) if self.exists else None
        held = OTHERS if self.others else ""
        marks = [CORDONED] if self.cordoned else []
        kept = node(*marks, begun=self.begun, ready=self.ready, cordoned=self.cordoned)
        return NodeSnapshot(self.name, self.piece, made, kept, maintenance=held)

    def agent(self) -> None:
        """What the node's agent does when it gets round to it."""
        if not (self.exists and self.ready):
            return
        self.observed = self.sent
        if self.applied == self.sent or not self.may_change or self.fails:
            return
        assert self.begun, "changed without its taint"
        assert not self.pods, "changed under pods"
        if self.needs_reboot and self.rebooted != self.sent:
            if self.may_reboot == f"b{self.boot}":
                self.boot, self.rebooted = self.boot + 1, self.sent
            return
        self.applied = self.sent
        self.changes.append(self.sent)

    def move(self, verb: str, rules: RolloutRules) -> None:
        """What the controller does."""
        if verb == "create":
            self.exists, self.sent = True, self.piece.digest
        elif verb == "send":
            self.sent = self.piece.digest
        elif verb == "permit":
            self.may_repair = not self.may_repair
        elif verb in {"begin", "guard"}:
            self.begun = self.cordoned = True
        elif verb == "drain":
            assert self.begun, "drained without its taint"
            assert not self.others, "changed below the hands of others"
            self.pods = max(0, self.pods - 1)
            self.may_change = not self.pods
            self.in_wave = self.flash if self.may_change else self.in_wave
        elif verb == "reboot":
            assert not self.others, "rebooted below the hands of others"
            self.may_reboot, self.reboots = f"b{self.boot}", self.reboots + 1
        else:
            assert verb == "finish"
            self.begun = self.cordoned = self.may_change = False
            self.may_reboot, self.reboots = "", 0
            self.changed = rules.generation


def unavailable(nodes: list[Simulated]) -> int:
    return sum(node.begun or node.cordoned or not node.ready or node.others for node in nodes)


@given(st.data())
def test_whatever_happens_no_more_than_allowed_are_begun_and_all_come_to_their_end(data: st.DataObject) -> None:
    draw: Callable[[st.SearchStrategy[int]], int] = data.draw
    count = draw(st.integers(1, 12))
    nodes = [
        Simulated(
            f"n{i}",
            PlanSlice(i, i // 4, "p1"),
            needs_reboot=data.draw(st.booleans()),
            flash=data.draw(st.booleans()),
            pods=draw(st.integers(0, 2)),
        )
        for i in range(count)
    ]
    most = draw(st.integers(1, 4))
    wave = WaveRules(draw(st.integers(1, most)), draw(st.integers(0, 2)))
    rules = replace_rules(max_unavailable=most, canary=draw(st.integers(0, 2)), firmware=wave)
    for _ in range(draw(st.integers(0, 60))):
        chosen = nodes[draw(st.integers(0, count - 1))]
        event = data.draw(st.sampled_from(["agent", "controller", "controller", "ready", "others", "part", "untaint"]))
        if event == "agent":
            chosen.agent()
        elif event == "ready":
            chosen.ready = not chosen.ready
        elif event == "others":
            chosen.others = not chosen.others
        elif event == "untaint":
            chosen.begun = chosen.begun and chosen.may_change  # the agent of this node would not wait for the guard
        else:
            turn(nodes, rules, only=chosen.name if event == "part" else None)
    for member in nodes:
        member.ready, member.others = True, False
    for _ in range(count * 30):
        turn(nodes, rules)
        for member in nodes:
            member.agent()
    assert [node.applied for node in nodes] == ["p1"] * count
    assert not any(node.begun or node.cordoned or node.may_change for node in nodes)
    assert all(node.changes == ["p1"] for node in nodes), "once each"
    assert all(node.boot == 1 + node.needs_reboot for node in nodes)


def turn(nodes: list[Simulated], rules: RolloutRules, only: str | None = None) -> Decision:
    """One look of a controller; one that is killed while it acts does a part only."""
    before = unavailable(nodes)
    decision = decide([node.snapshot() for node in nodes], rules, START)
    named = {node.name: node for node in nodes}
    for verb, name in decision.moves:
        if only in {None, name}:
            named[name].move(verb, rules)
    assert unavailable(nodes) <= max(before, rules.max_unavailable)
    _check_waves(decision, [named[name] for name in begun(decision)], rules, before)
    return decision


def _check_waves(decision: Decision, fresh: list[Simulated], rules: RolloutRules, before: int) -> None:
    """Nodes of one wave begin while none of the other changes; those of the firmware wave within its own bound."""
    if not fresh:
        return
    wave = fresh[0].flash
    assert {outcome.flash for outcome in fresh} == {wave}
    assert not any(node.stage in IN_PROGRESS and node.is_in_firmware_wave is not wave for node in decision.nodes)
    if wave:
        assert before + len(fresh) <= rules.firmware.max_unavailable
        assert not any(node.stage is Stage.WAITING and not node.is_in_firmware_wave for node in decision.nodes)


def replace_rules(**changes: object) -> RolloutRules:
    return msgspec.structs.replace(RULES, **changes)


def world(count: int, **changes: object) -> tuple[list[Simulated], RolloutRules]:
    """Nodes that wait for their turn."""
    nodes = [
        Simulated(f"n{i}", PlanSlice(i, i // 4, "p1"), exists=True, sent="p1", observed="p1") for i in range(count)
    ]
    return nodes, replace_rules(**changes)


def begun(decision: Decision) -> list[str]:
    return [name for verb, name in decision.moves if verb == "begin"]


def test_canaries_come_first_and_alone() -> None:
    nodes, rules = world(8, max_unavailable=4, canary=1)
    assert begun(turn(nodes, rules)) == ["n0"]
    assert begun(turn(nodes, rules)) == []
    nodes[0].agent()
    turn(nodes, rules)
    assert begun(turn(nodes, rules)) == ["n1", "n2", "n3"], "of the same unit only"


def test_a_unit_comes_to_its_end_before_the_next_begins() -> None:
    nodes, rules = world(8, max_unavailable=8, canary=0)
    assert begun(turn(nodes, rules)) == ["n0", "n1", "n2", "n3"]
    turn(nodes, rules)
    for node in nodes[:3]:
        node.agent()
    assert begun(turn(nodes, rules)) == []
    nodes[3].agent()
    turn(nodes, rules)
    assert begun(turn(nodes, rules)) == ["n4", "n5", "n6", "n7"]


def test_nodes_that_are_down_anyway_count() -> None:
    nodes, rules = world(8, max_unavailable=3, canary=0)
    nodes[6].ready = nodes[7].ready = False
    assert begun(turn(nodes, rules)) == ["n0"]


def test_nodes_that_others_have_in_maintenance_count() -> None:
    nodes, rules = world(8, max_unavailable=3, canary=0)
    nodes[0].others = nodes[7].others = True
    assert begun(turn(nodes, rules)) == ["n1"]


def test_no_room_for_anybody_is_told_with_who_takes_it() -> None:
    nodes, rules = world(4, max_unavailable=1, canary=0, max_failures=4)
    nodes[2].ready = False
    reason = turn(nodes, rules).halt_reason
    assert reason == "1 node unavailable, 1 may be (rollout.maxUnavailable): n2 is Held: its kubelet is not ready; m"
    nodes[2].ready = True
    assert begun(turn(nodes, rules)) == ["n0"]
    assert turn(nodes, rules).halt_reason == "", "what has begun makes room by itself"
    assert turn(*world(1, max_unavailable=0)).halt_reason == "0 nodes unavailable, 0 may be (rollout.maxUnavailable)"


def test_a_failed_canary_stops_everything_and_says_why() -> None:
    nodes, rules = world(8, max_unavailable=4, canary=1, max_failures=5)
    nodes[0].fails = True
    turn(nodes, rules)
    turn(nodes, rules)
    nodes[0].agent()
    decision = turn(nodes, rules)
    assert begun(decision) == []
    assert decision.halt_reason.startswith("a canary failed: n0: m; mend it, then kubectl annotate railnode n0")


def test_one_failure_too_many_stops_what_has_not_begun() -> None:
    nodes, rules = world(8, max_unavailable=3, canary=0, max_failures=1)
    for member in nodes[:2]:
        member.fails = True
    for _ in range(3):
        turn(nodes, rules)
        for member in nodes:
            member.agent()
    decision = turn(nodes, rules)
    assert decision.halt_reason.startswith("2 nodes failed, 1 may (rollout.maxFailures): n0: ")
    assert [node.applied for node in nodes[2:4]] == ["p1", "old"], "n2 had begun"


def test_a_pause_lets_what_has_begun_come_to_its_end() -> None:
    nodes, rules = world(4, max_unavailable=2, canary=0)
    turn(nodes, rules)
    paused = msgspec.structs.replace(rules, paused=True)
    for _ in range(4):
        decision = turn(nodes, paused)
        for member in nodes:
            member.agent()
    assert decision.halt_reason == "paused: rollout.paused, or annotation trackbed.dev/paused"
    assert [node.applied for node in nodes] == ["p1", "p1", "old", "old"]


def test_a_node_that_may_have_begun_counts_and_is_not_begun_again() -> None:
    nodes, rules = world(4, max_unavailable=2, canary=0)
    snapshots = [node.snapshot()._replace(uncertain=node.name == "n0") for node in nodes]
    assert begun(decide(snapshots, rules, START)) == ["n1"]


def through(nodes: list[Simulated], rules: RolloutRules, turns: int) -> list[list[str]]:
    """Who begins at each of so many turns, while agents do their work."""
    stages = []
    for _ in range(turns):
        stages.append(begun(turn(nodes, rules)))
        for node in nodes:
            node.agent()
    return [names for names in stages if names]


def test_nodes_whose_firmware_differs_come_last_and_with_canaries_of_their_own() -> None:
    nodes, rules = world(6, max_unavailable=2, canary=0)
    for node in nodes[:3]:
        node.flash = True
    assert through(nodes, rules, 20) == [["n3"], ["n4", "n5"], ["n0"], ["n1", "n2"]]


def test_how_far_the_firmware_wave_is_is_told_while_it_is_on() -> None:
    nodes, rules = world(4, max_unavailable=2, canary=0)
    for node in nodes[1:]:
        node.flash = True
    assert turn(nodes, rules).wave_progress == "", "n0 comes first"
    through(nodes, rules, 3)
    assert turn(nodes, rules).wave_progress == "firmware wave: 0 of 3 nodes"
    through(nodes, rules, 3)
    assert turn(nodes, rules).wave_progress == "firmware wave: 1 of 3 nodes"
    through(nodes, rules, 9)
    assert turn(nodes, rules).wave_progress == ""


def test_a_node_that_joins_during_the_firmware_wave_waits_for_what_has_begun() -> None:
    nodes, rules = world(4, max_unavailable=3, canary=0, firmware=WaveRules(1, 0))
    for node in nodes[1:]:
        node.flash = True
    nodes[0].applied = "p1"
    assert begun(turn(nodes, rules)) == ["n1"]
    nodes[0].applied = "old"
    decision = turn(nodes, rules)
    assert (begun(decision), decision.wave_progress) == ([], "firmware wave: 0 of 3 nodes")
    assert through(nodes, rules, 12) == [["n0"], ["n2"], ["n3"]]


def test_the_first_failure_of_the_firmware_wave_halts_it_and_nothing_else() -> None:
    nodes, rules = world(4, max_unavailable=3, canary=0, max_failures=3, firmware=WaveRules(2, 0))
    for node in nodes[1:]:
        node.flash = True
    nodes[0].applied, nodes[1].fails = "p1", True
    assert through(nodes, rules, 6) == [["n1", "n2"]]
    decision = turn(nodes, rules)
    assert decision.halt_reason.startswith("the firmware wave halts at its first failure: n1: m; mend it, then kubectl")
    assert not decision.paused
    nodes[0].applied = "old"
    assert through(nodes, rules, 3) == [["n0"]], "others go on"


def test_a_paused_firmware_wave_waits_and_others_go_on() -> None:
    nodes, rules = world(4, max_unavailable=3, canary=0, firmware=WaveRules(2, 0, paused=True))
    nodes[0].flash = nodes[1].flash = True
    assert through(nodes, rules, 9) == [["n2", "n3"]]
    decision = turn(nodes, rules)
    assert (decision.halt_reason, decision.paused) == (
        "firmware wave paused: 2 nodes to go (rollout.firmware.paused)",
        True,
    )


def test_no_firmware_is_changed_before_every_agent_that_should_has_compared() -> None:
    nodes, rules = world(3, max_unavailable=3, canary=0, firmware=WaveRules(2, 0))
    nodes[0].flash = nodes[1].flash = True
    nodes[2].observed = ""
    decision = turn(nodes, rules)
    assert (begun(decision), decision.wave_progress) == (
        [],
        "firmware wave: 0 of 2 nodes; n2 comes first: its agent has not compared it with the plan yet",
    )
    nodes[2].ready = False
    assert begun(turn(nodes, rules)) == ["n0"], "who is down keeps nobody"


def test_the_firmware_wave_says_whose_limit_it_is() -> None:
    nodes, rules = world(3, max_unavailable=2, canary=0, firmware=WaveRules(1, 0))
    nodes[0].flash = nodes[1].flash = True
    nodes[2].ready = False
    reason = turn(nodes, rules).halt_reason
    assert reason.startswith("1 node unavailable, 1 may be (rollout.firmware.maxUnavailable): n2 is Held")


def test_the_simulation_would_notice_a_change_under_pods() -> None:
    careless = replace(Simulated("n0", WANTED, exists=True, sent="new", begun=True, pods=1), may_change=True)
    with pytest.raises(AssertionError, match="changed under pods"):
        careless.agent()
