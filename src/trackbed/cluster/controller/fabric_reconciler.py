"""One Fabric carried out: look at everything, decide, act, report; again whenever something changes.

What is remembered between two looks only saves work (the plan of this generation, when pods were asked to leave last);
a controller that knows none of it does the same.
"""

from __future__ import annotations

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
from trackbed.cluster.controller.events import DEEDS
from trackbed.cluster.controller.events import tell as tell_event
from trackbed.cluster.controller.lock import KeptLock
from trackbed.cluster.controller.objects import FabricObject, NodeObject, RailNode
from trackbed.cluster.controller.pace import AGAIN_SECONDS, MOVED_ON, QUIET_SECONDS, Tell, together
from trackbed.cluster.controller.reporter import FabricPass, Reporter
from trackbed.cluster.controller.revisions import Revisions
from trackbed.cluster.controller.slices import Slices, model_of, rules, slices
from trackbed.cluster.controller.stack_pass import StackOrder
from trackbed.cluster.controller.stage import Standing
from trackbed.fabric.model.fabric import Fabric as Model
from trackbed.fabric.model.problems import SpecError

DRAIN_SECONDS = 5.0
"""Pods of a node are asked to leave no more often."""
UNSURE_SECONDS = 60.0
"""A server ends a request after so long at the latest (kube-apiserver --request-timeout)."""


class FabricReconciler:
    """One Fabric and what is known of carrying it out."""

    def __init__(
        self, client: Client, railnodes: Reflector[RailNode], nodes: Reflector[NodeObject], namespace: str, name: str
    ) -> None:
        self._client, self._railnodes, self._nodes, self._name = client, railnodes, nodes, name
        self._lock = KeptLock(client, namespace, name)
        self._revisions = Revisions(client, namespace, name)
        self._lock_read = False
        self._planned: tuple[object, Model, Slices] | None = None
        self._drains: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._unsure: dict[str, float] = {}
        self._reporter = Reporter(client, railnodes, self._revisions)

    def stack(self, fabric: FabricObject) -> StackOrder | None:
        """What is wanted of the Fabric's stack; None before anything was planned."""
        if self._planned is None:
            return None
        key, model, found = self._planned
        paused = model.spec.rollout.paused or fabric.metadata.annotations.paused is not None
        return StackOrder(key, model.spec.kubernetes.stack, found.plan, fabric.rolled_back, paused)

    async def look(self, fabric: FabricObject, maintenance: Mapping[str, str], tell: Tell) -> float:
        """Look at everything and do what is next; seconds after which to look again if nothing changes.

        `maintenance` has the nodes that others have in maintenance, and why.
        """
        try:
            model, wanted = await self._plan(fabric)
        except SpecError as error:
            why = "; ".join(problem.message for problem in error.problems)
            await self._reporter.refused(fabric, why)
            return QUIET_SECONDS
        told = rules(fabric, model, len(wanted.nodes))
        decision = decide(self._standings(wanted, maintenance), told, datetime.now(UTC))
        metrics.saw(fabric, decision, told)
        actor = Actor(self._client, self._railnodes, self._nodes, wanted, told.generation)
        again = await self._act(decision, actor, tell)
        left = {name: who for name, (_, who) in self._drains.items()}
        seen = FabricPass(decision, told, wanted.resources, left)
        return min(again, await self._reporter.carried(fabric, seen, tell))

    async def _plan(self, fabric: FabricObject) -> tuple[Model, Slices]:
        """The Fabric's model and plan, made anew for a new generation or lock. Raises SpecError, KubeError."""
        if not self._lock_read:
            await self._lock.read()
            self._lock_read = True
        of = (fabric.metadata.generation, fabric.metadata.annotations.rollback)
        if self._planned is None or self._planned[0] != (*of, self._lock.version):
            model = model_of(await self._wanted(fabric))
            found = slices(model, self._lock.nodes)
            await self._keep(found.lock)
            self._planned = ((*of, self._lock.version), model, found)
        return self._planned[1], self._planned[2]

    async def _wanted(self, fabric: FabricObject) -> FabricObject:
        """The Fabric as it is to be carried out: as it stands, or as it was when all was well."""
        if not fabric.rolled_back:
            return fabric
        spec = await self._revisions.before(fabric.metadata.generation)
        return fabric if spec is None else msgspec.structs.replace(fabric, spec=spec)

    async def _keep(self, lock: Mapping[str, int]) -> None:
        """Have the cluster keep this lock. Raises KubeError."""
        if lock == self._lock.nodes:
            return
        try:
            await self._lock.write(lock)
        except ApiRefusedError:
            self._lock_read = False  # somebody else wrote it: read it anew
            raise

    def _standings(self, wanted: Slices, maintenance: Mapping[str, str]) -> Iterator[Standing]:
        """All nodes that the Fabric or a RailNode of it names."""
        rails, nodes = self._railnodes.objects, self._nodes.objects
        soon = time.monotonic()
        self._unsure = {name: until for name, until in self._unsure.items() if until > soon}
        for name, own in wanted.nodes.items():
            yield Standing(name, own, rails.get(name), nodes.get(name), name in self._unsure, maintenance.get(name, ""))
        for name, rail in rails.items():
            if rail.spec.fabric == self._name and name not in wanted.nodes:
                yield Standing(name, None, rail, nodes.get(name), maintenance=maintenance.get(name, ""))

    async def _act(self, decision: Decision, actor: Actor, tell: Tell) -> float:
        """Do what was decided; seconds after which there may be more to do."""
        standings = {one.standing.name: one.standing for one in decision.placed}
        draining = {name for verb, name in decision.moves if verb == "drain"}
        self._drains = {name: told for name, told in self._drains.items() if name in draining}
        due = time.monotonic() - DRAIN_SECONDS
        moves = [(v, n) for v, n in decision.moves if v != "drain" or self._drains.get(n, (0.0,))[0] < due]
        if gone := {name for verb, name in moves if verb == "forget"}:
            await self._keep({name: slot for name, slot in self._lock.nodes.items() if name not in gone})
        done = await together([partial(self._do, verb, standings[name], actor, tell) for verb, name in moves])
        if not all(done):
            return AGAIN_SECONDS
        return 0.0 if moves else DRAIN_SECONDS if self._drains else QUIET_SECONDS

    async def _do(self, verb: Verb, one: Standing, actor: Actor, tell: Tell) -> bool:
        """Do one thing to one node; False where that went wrong and is to be tried again after a while."""
        try:
            if verb == "drain":
                self._drains[one.name] = (time.monotonic(), await actor.drain(one))
            else:
                await getattr(actor, verb)(one)
            if verb == "reboot":
                metrics.REBOOTS.labels(self._name).inc()
            if verb in DEEDS and one.rail is not None:
                await tell_event(self._client, one.rail, *DEEDS[verb])
        except KubeError as error:
            if isinstance(error, ApiRefusedError) and error.status in MOVED_ON:
                return True
            if isinstance(error, UnreachableError) and verb == "begin":
                self._unsure[one.name] = time.monotonic() + UNSURE_SECONDS
            tell(f"{verb} {one.name}: {error}")
            return False
        return True
