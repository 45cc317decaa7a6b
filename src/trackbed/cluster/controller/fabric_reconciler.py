"""Reconciliation of one Fabric: read the cluster, decide, act, report; again after each change.

The state kept between two passes only saves work: the plan of this generation, and the times of the last evictions. A
controller without it does the same.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller import metrics
from trackbed.cluster.controller.act import Actor
from trackbed.cluster.controller.decide import Decision, Verb, decide
from trackbed.cluster.controller.events import EVENTS, record_railnode_event
from trackbed.cluster.controller.lock import LockConfigMap
from trackbed.cluster.controller.objects import FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, STALE_STATUSES, Log, run_all
from trackbed.cluster.controller.reporter import FabricPass, Reporter
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.slices import Slices, build_rules, build_slices, load_model
from trackbed.cluster.controller.stack_pass import StackRequest
from trackbed.cluster.controller.stage import Standing
from trackbed.fabric.model.fabric import Fabric as Model
from trackbed.fabric.model.problems import SpecError

DRAIN_SECONDS = 5.0
"""Shortest interval between two evictions of one node's pods."""
UNCERTAIN_SECONDS = 60.0
"""Longest time that a server works on a request (kube-apiserver --request-timeout)."""


class FabricReconciler:
    """Reconciles one Fabric."""

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

    def build_stack_order(self, fabric: FabricObject) -> StackRequest | None:
        """Return the order for the Fabric's stack; None before the first plan."""
        if self._cache is None:
            return None
        key, model, slices = self._cache
        paused = model.spec.rollout.paused or fabric.metadata.annotations.paused is not None
        return StackRequest(key, model.spec.kubernetes.stack, slices.plan, fabric.rolled_back, paused)

    async def reconcile(self, fabric: FabricObject, maintenance: Mapping[str, str], log: Log) -> float:
        """Make the next moves; return the seconds until the next pass if nothing changes before.

        `maintenance` has the nodes under maintenance by other operators, with descriptions.
        """
        try:
            model, slices = await self._load_plan(fabric)
        except SpecError as error:
            await self._reporter.report_refusal(fabric, "; ".join(problem.message for problem in error.problems))
            return IDLE_SECONDS
        rules = build_rules(fabric, model, len(slices.nodes))
        decision = decide(self._iter_standings(slices, maintenance), rules, datetime.now(UTC))
        metrics.record_decision(fabric, decision, rules)
        actor = Actor(self._client, self._railnodes, self._nodes, slices, rules.generation)
        wait_seconds = await self._make_moves(decision, actor, log)
        pods = {name: pods for name, (_, pods) in self._drains.items()}
        fabric_pass = FabricPass(decision, rules, slices.resources, pods)
        return min(wait_seconds, await self._reporter.report_pass(fabric, fabric_pass, log))

    async def _load_plan(self, fabric: FabricObject) -> tuple[Model, Slices]:
        """Return the model and the plan, planned again for a new generation or lock. Raises SpecError, KubeError."""
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
        """Return the Fabric, with the spec of the last good generation if it is rolled back."""
        if not fabric.rolled_back:
            return fabric
        spec = await self._revisions.read_before(fabric.metadata.generation)
        return fabric if spec is None else msgspec.structs.replace(fabric, spec=spec)

    async def _save_lock(self, lock: Mapping[str, int]) -> None:
        """Write the lock to the cluster if it differs. Raises KubeError."""
        if lock == self._lock.nodes:
            return
        try:
            await self._lock.write(lock)
        except ApiRefusedError:
            self._is_lock_read = False  # another client wrote it: read it again
            raise

    def _iter_standings(self, slices: Slices, maintenance: Mapping[str, str]) -> Iterator[Standing]:
        """Yield the standings of all nodes that the Fabric or one of its RailNodes names."""
        railnodes, nodes = self._railnodes.objects, self._nodes.objects
        now = time.monotonic()
        self._uncertain = {name: until for name, until in self._uncertain.items() if until > now}
        for name, wanted in slices.nodes.items():
            is_uncertain, description = name in self._uncertain, maintenance.get(name, "")
            yield Standing(name, wanted, railnodes.get(name), nodes.get(name), is_uncertain, description)
        for name, railnode in railnodes.items():
            if railnode.spec.fabric == self._name and name not in slices.nodes:
                yield Standing(name, None, railnode, nodes.get(name), maintenance=maintenance.get(name, ""))

    async def _make_moves(self, decision: Decision, actor: Actor, log: Log) -> float:
        """Make the moves; return the seconds until there may be more."""
        standings = {node.standing.name: node.standing for node in decision.nodes}
        draining = {name for verb, name in decision.moves if verb == "drain"}
        self._drains = {name: drain for name, drain in self._drains.items() if name in draining}
        due = time.monotonic() - DRAIN_SECONDS
        moves = [
            (verb, name) for verb, name in decision.moves if verb != "drain" or self._drains.get(name, (0.0,))[0] < due
        ]
        if forgotten := {name for verb, name in moves if verb == "forget"}:
            await self._save_lock({name: slot for name, slot in self._lock.nodes.items() if name not in forgotten})
        results = await run_all([partial(self._make_move, verb, standings[name], actor, log) for verb, name in moves])
        if not all(results):
            return RETRY_SECONDS
        return 0.0 if moves else DRAIN_SECONDS if self._drains else IDLE_SECONDS

    async def _make_move(self, verb: Verb, standing: Standing, actor: Actor, log: Log) -> bool:
        """Make a move; return False where it failed and is to be retried."""
        try:
            if verb == "drain":
                self._drains[standing.name] = (time.monotonic(), await actor.drain(standing))
            else:
                await getattr(actor, verb)(standing)
            if verb == "reboot":
                metrics.REBOOTS.labels(self._name).inc()
            if verb in EVENTS and standing.railnode is not None:
                await record_railnode_event(self._client, standing.railnode, *EVENTS[verb])
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in STALE_STATUSES:
                return True
            if isinstance(error, UnreachableError) and verb == "begin":
                self._uncertain[standing.name] = time.monotonic() + UNCERTAIN_SECONDS
            log(f"{verb} {standing.name}: {error}")
            return False
        return True
