"""Reconciliation of one Fabric: each pass reads the cluster, decides, acts and reports.

The state between two passes is only a cache: the plan of the generation, and the times of the last evictions. A
controller that starts without it makes the same decisions.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.concurrency import run_all
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.act import Actor
from trackbed.cluster.controller.comparer import ComparisonInput
from trackbed.cluster.controller.decide import Decision, Verb, decide
from trackbed.cluster.controller.events import EVENTS, record_railnode_event
from trackbed.cluster.controller.lock import LockConfigMap
from trackbed.cluster.controller.objects import FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, STALE_STATUSES, Log
from trackbed.cluster.controller.reporter import FabricPass, Reporter
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.slices import Slices, build_rules, build_slices, load_model
from trackbed.cluster.controller.stack_pass import StackRequest
from trackbed.cluster.controller.stage import NodeSnapshot, Stage
from trackbed.fabric.model.fabric import Fabric as Model
from trackbed.fabric.model.problems import SpecError

DRAIN_SECONDS = 5.0
"""Shortest interval between two rounds of evictions from one node."""
UNCERTAIN_SECONDS = 60.0
"""Time after which a request without a response can no longer succeed (kube-apiserver --request-timeout)."""


class FabricReconciler:
    """Reconciles the Fabric called `name`; `namespace` is the controller's own."""

    def __init__(
        self, client: Client, railnodes: Reflector[RailNode], nodes: Reflector[NodeObject], namespace: str, name: str
    ) -> None:
        self._client, self._railnodes, self._nodes, self._name = client, railnodes, nodes, name
        self._lock = LockConfigMap(client, namespace, name)
        self._revisions = Revisions(client, namespace, name)
        self._is_lock_read = False
        self._cache: tuple[object, Model, Slices] | None = None
        self._drains: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._uncertain: dict[str, float] = {}
        self._reporter = Reporter(client, railnodes, self._revisions)

    def build_stack_request(self, fabric: FabricObject) -> StackRequest | None:
        """Return the request to apply the stack that the Fabric names; None before the first plan."""
        if self._cache is None:
            return None
        key, model, slices = self._cache
        paused = model.spec.rollout.paused or fabric.metadata.annotations.paused is not None
        return StackRequest(key, model.spec.kubernetes.stack, slices.plan, fabric.rolled_back, paused)

    def build_comparison_input(self, fabric: FabricObject) -> ComparisonInput | None:
        """Return what a comparison of the Fabric's nodes in the cluster needs; None before the first plan."""
        if self._cache is None:
            return None
        slices = self._cache[2]
        present = {name: self._railnodes.objects.get(name) for name in slices.nodes if name in self._nodes.objects}
        railnodes = {
            name: railnode
            for name, railnode in present.items()
            if railnode is None or railnode.spec.fabric == self._name
        }
        return ComparisonInput(fabric, slices, railnodes)

    async def reconcile(self, fabric: FabricObject, maintenance: Mapping[str, str], log: Log) -> float:
        """Make the next moves; return the seconds until the next pass, unless an object changes before.

        `maintenance` maps the nodes under maintenance by other operators to descriptions. Raises KubeError.
        """
        try:
            model, slices = await self._load_plan(fabric)
        except SpecError as error:
            await self.report_refusal(fabric, "; ".join(problem.message for problem in error.problems))
            return IDLE_SECONDS
        rules = build_rules(fabric, model, len(slices.nodes))
        decision = decide(self._iter_snapshots(slices, maintenance), rules, datetime.now(UTC))
        metrics.record_decision(fabric, decision, rules)
        actor = Actor(self._client, self._railnodes, self._nodes, slices, rules)
        wait_seconds = await self._make_moves(decision, actor, log)
        pods = {name: pods for name, (_, pods) in self._drains.items()}
        fabric_pass = FabricPass(decision, rules, slices.resources, pods)
        return min(wait_seconds, await self._reporter.report_pass(fabric, fabric_pass, log))

    async def report_refusal(self, fabric: FabricObject, reason: str) -> None:
        """Write into the Fabric's status why it is left as it is, and record an event. Raises KubeError."""
        await self._reporter.report_refusal(fabric, reason)

    async def _load_plan(self, fabric: FabricObject) -> tuple[Model, Slices]:
        """Return the model and its slices, cached until generation or lock change. Raises SpecError, KubeError."""
        if not self._is_lock_read:
            await self._lock.read()
            self._is_lock_read = True
        generation = (fabric.metadata.generation, fabric.metadata.annotations.rollback)
        if self._cache is None or self._cache[0] != (*generation, self._lock.version):
            model = load_model(await self._select_generation(fabric))
            slices = build_slices(model, self._lock.nodes)
            await self._save_lock(slices.lock)
            self._cache = ((*generation, self._lock.version), model, slices)
        return self._cache[1], self._cache[2]

    async def _select_generation(self, fabric: FabricObject) -> FabricObject:
        """Return the Fabric; if it is rolled back, with the spec of the last good generation."""
        if not fabric.rolled_back:
            return fabric
        spec = await self._revisions.read_spec_before(fabric)
        return fabric if spec is None else msgspec.structs.replace(fabric, spec=spec)

    async def _save_lock(self, lock: Mapping[str, int]) -> None:
        """Write the lock (node -> slot) to the cluster if it differs. Raises KubeError."""
        if lock == self._lock.nodes:
            return
        try:
            await self._lock.write(lock)
        except ApiRefusedError:
            self._is_lock_read = False  # another client wrote it: read it again
            raise

    def _iter_snapshots(self, slices: Slices, maintenance: Mapping[str, str]) -> Iterator[NodeSnapshot]:
        """Yield a snapshot of each node that the Fabric lists or listed before."""
        railnodes, nodes = self._railnodes.objects, self._nodes.objects
        now = time.monotonic()
        self._uncertain = {name: until for name, until in self._uncertain.items() if until > now}
        for name, plan_slice in slices.nodes.items():
            marks = name in self._uncertain, maintenance.get(name, ""), self._explain_obscurity(name)
            has_pods = bool(self._drains.get(name, (0.0, ()))[1])
            yield NodeSnapshot(name, plan_slice, railnodes.get(name), nodes.get(name), *marks, has_pods)
        for name, railnode in railnodes.items():
            if railnode.spec.fabric == self._name and name not in slices.nodes:
                marks = False, maintenance.get(name, ""), self._explain_obscurity(name)
                yield NodeSnapshot(name, None, railnode, nodes.get(name), *marks)

    def _explain_obscurity(self, name: str) -> str:
        """Return why an object of a node could not be decoded; empty if all could."""
        unreadable = {"RailNode": self._railnodes.unreadable, "Node": self._nodes.unreadable}
        reasons = (
            f"its {kind} is not understood: {of_kind[name].reason}"
            for kind, of_kind in unreadable.items()
            if name in of_kind
        )
        return next(reasons, "")

    async def _make_moves(self, decision: Decision, actor: Actor, log: Log) -> float:
        """Make the moves of a decision; return the seconds until the next moves may be due."""
        snapshots = {node.snapshot.name: node.snapshot for node in decision.nodes}
        draining = {name for verb, name in decision.moves if verb == "drain"}
        drained = draining | {node.snapshot.name for node in decision.nodes if node.stage is Stage.FAILED}
        self._drains = {name: drain for name, drain in self._drains.items() if name in drained}
        due = time.monotonic() - DRAIN_SECONDS
        moves = [
            (verb, name) for verb, name in decision.moves if verb != "drain" or self._drains.get(name, (0.0,))[0] < due
        ]
        if forgotten := {name for verb, name in moves if verb == "forget"}:
            await self._save_lock({name: slot for name, slot in self._lock.nodes.items() if name not in forgotten})
        results = await run_all([partial(self._make_move, verb, snapshots[name], actor, log) for verb, name in moves])
        if not all(results):
            return RETRY_SECONDS
        return 0.0 if moves else DRAIN_SECONDS if draining else IDLE_SECONDS

    async def _make_move(self, verb: Verb, snapshot: NodeSnapshot, actor: Actor, log: Log) -> bool:
        """Make one move and record an event about it; return False if it failed and must be retried."""
        try:
            if verb == "drain":
                self._drains[snapshot.name] = (time.monotonic(), await actor.drain_node(snapshot))
            else:
                await actor.make_move(verb, snapshot)
            if verb == "reboot":
                metrics.REBOOTS.labels(self._name).inc()
            if verb in EVENTS and snapshot.railnode is not None:
                await record_railnode_event(self._client, snapshot.railnode, *EVENTS[verb])
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in STALE_STATUSES:
                return True
            if isinstance(error, UnreachableError) and verb == "begin":
                self._uncertain[snapshot.name] = time.monotonic() + UNCERTAIN_SECONDS
            log(f"{verb} {snapshot.name}: {error}")
            return False
        return True
