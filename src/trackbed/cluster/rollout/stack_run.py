"""Run of a stack's steps on a cluster: charts, objects, gates, and the removal of stale objects.

    step: chart     helm upgrade --install, with the values on standard input
    step: objects   server-side apply, one after the other; conflicts with other managers are reported
    its gates       checked until they are open, or until their time limit
    at the end      members of the set that no step contains are deleted (removal); never a namespace or a CRD

Objects of another set are never changed (membership).

A run is idempotent: it changes only what differs, so it also completes an interrupted run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar, cast

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import gates
from trackbed.cluster.rollout.applyset import (
    ApplySet,
    ObjectKey,
    find_live_object,
    iter_members,
    read_scope,
    to_object_key,
)
from trackbed.cluster.rollout.attempts import iter_attempts
from trackbed.cluster.rollout.lost_pools import SECTION, describe_lost_pools, describe_pools_of_others, drops_nv_ipam
from trackbed.cluster.rollout.membership import MembershipCheck, build_membership_error
from trackbed.cluster.rollout.options import (
    FieldConflictError,
    GateTimeoutError,
    KindMissingError,
    ObjectChange,
    RunOptions,
    StuckError,
    format_object_name,
    is_shared_kind,
)
from trackbed.cluster.rollout.other_installation import describe_other_installation
from trackbed.cluster.rollout.removal import Removal, order_for_removal
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step, WaitForLabel
from trackbed.cluster.stacks.stack import AnyWait

_T = TypeVar("_T")
_END = object()
_KIND_SECONDS = 30
"""Time limit for a server to serve a kind after its CRD was created."""
_BOOKKEEPING = frozenset({"managedFields", "resourceVersion"})


@dataclass(slots=True)
class StackRun:
    """One run of a stack's steps on one cluster."""

    client: DynamicClient
    applyset: ApplySet
    options: RunOptions
    report: Callable[[str], None]
    """Function that receives a line about each action and each wait."""
    changes: list[ObjectChange] = field(default_factory=list)
    """Outcome for each object so far."""
    _kinds: set[str] = field(default_factory=set)
    _namespaces: set[str] = field(default_factory=set)
    applied: set[ObjectKey] = field(default_factory=set)
    stage_kinds: list[str] = field(default_factory=list)
    """Kinds (`ObjectKey.group_kind`) in the order in which the stack applies them; `apply_steps` adds those it applies.

    The reverse is the order of a removal.
    """
    _membership: MembershipCheck = field(init=False)

    def __post_init__(self) -> None:
        self._membership = MembershipCheck(self.client, self.applyset)

    async def apply_steps(self, steps: Iterable[Step]) -> None:
        """Apply all steps, then delete stale members. Raises StuckError, KubeError."""
        self._kinds, self._namespaces = map(set, await read_scope(self.client, self.applyset))
        before = [member async for member in iter_members(self.client, self.applyset)]
        for step in steps:
            await self._apply_step(step)
            for wait in step.waits:
                await self.wait_for_gate(wait)
        await self._delete_stale_members(before)
        kept = [key for key in self.applied if not is_shared_kind(key.kind)]
        await self._write_parent({key.group_kind for key in kept}, {key.namespace for key in kept})

    async def delete_members(self) -> None:
        """Delete every member of the set, and its parent. Raises StuckError, KubeError."""
        await self._delete_stale_members([member async for member in iter_members(self.client, self.applyset)])
        await self.client.delete(self.applyset.build_parent((), ()))

    async def wait_for_gate(self, wait: AnyWait) -> None:
        """Wait until a gate opens, and report what is missing. Raises GateTimeoutError."""
        gate = gates.Gate(holds=False)
        async for _ in iter_attempts(self.options.get_timeout(wait.timeout_seconds)):
            before, gate = gate, await self._check_gate(wait)
            if gate.holds:
                return
            if gate.missing != before.missing:
                self.report(f"waiting for {wait.resource}: {'; '.join(gate.missing)}")
        raise GateTimeoutError(wait, gate, self.options.get_timeout(wait.timeout_seconds))

    async def _apply_step(self, step: Step) -> None:
        if isinstance(step, InstallChart):
            if self.options.install is not None:
                self.report(f"chart {step.release_name} {step.version or ''}".rstrip())
                await self.options.install(step)
        elif isinstance(step, WaitForLabel):
            await self._wait_for_labels(step)
        else:
            await self._apply_objects(step)

    async def _apply_objects(self, step: ApplyFile) -> None:
        """Apply the objects of a step. Raises FieldConflictError for all conflicts together."""
        if others := await describe_other_installation(self.client, step):
            self.report(f"leaving out {step.title}, as the cluster has {others}")
            self.applied |= {to_object_key(body) for body in step.objects}  # those of an earlier run are kept
            return
        self.report(f"applying {step.title}")
        options = self.options.adapt_to_step(step)
        conflicts: list[str] = []
        refusals: list[str] = []
        async for body in _iter_in_thread(step.objects):
            await self._wait_for_kind(body)
            live = await find_live_object(self.client, body)
            if owner := await self._membership.describe_owner(live):
                refusals.append(owner)
            elif conflict := await self._apply_object(body, live, options):
                conflicts.append(conflict)
        if refusals:
            raise build_membership_error(step.title, refusals)
        if conflicts:
            lines = "".join(f"\n  {why}" for why in conflicts)
            raise FieldConflictError(
                f"{step.title}: others own fields that are wanted here; --force takes them over:{lines}"
            )

    async def _apply_object(self, body: Object, live: Object | None, options: RunOptions) -> str:
        """Apply one object; return the conflict with other field managers as text, empty if there is none.

        `live` is read just before, since controllers write into objects all the time.
        """
        await self._add_to_parent(body)
        labelled = options.add_label(self.applyset, body)
        try:
            if drops_nv_ipam(live, body):
                await self._hold_back_for_pools(live, labelled)
            response = await self.client.apply(labelled, manager=options.manager, force=options.force)
        except ApiRefusedError as error:
            if error.status == HTTPStatus.CONFLICT:
                return str(error)
            raise
        is_same = live and _drop_bookkeeping(live) == _drop_bookkeeping(response.body)
        outcome = "created" if response.status == HTTPStatus.CREATED else "same" if is_same else "changed"
        self.applied.add(to_object_key(response.body))
        self.changes.append(ObjectChange(format_object_name(response.body), outcome))
        return ""

    async def _hold_back_for_pools(self, live: Object | None, labelled: Object) -> None:
        """Raise StuckError if an update without nvIpam takes pools of others along; with --force report them.

        A dry run tells whether the section is gone, since another field manager may keep it.
        """
        manager, force = self.options.manager, self.options.force
        updated = (await self.client.apply(labelled, manager=manager, force=force, dry_run=True)).body
        if drops_nv_ipam(live, updated):
            self._check_loss(await describe_pools_of_others(self.client, self.applyset, SECTION))

    def _check_loss(self, loss: str) -> None:
        if loss and not self.options.force:
            raise StuckError(f"{loss}. Nothing was removed; save those pools, then use --force to remove them too")
        if loss:
            self.report(loss)

    async def _wait_for_kind(self, body: Object) -> None:
        """Wait until the server serves an object's kind, shortly after its CRD is created. Raises KindMissingError."""
        why = ""
        async for _ in iter_attempts(self.options.get_timeout(_KIND_SECONDS)):
            try:
                await self.client.get_resource(body["apiVersion"], body["kind"])
            except UnknownKindError as error:
                why = str(error)
                self.report(why)
            else:
                return
        raise KindMissingError(
            f"{format_object_name(body)}: {why}, or see why its operator does not; then run this again"
        )

    async def _add_to_parent(self, body: Object) -> None:
        """Add an object's kind and namespace to the set's parent, before the object becomes a member."""
        if is_shared_kind(body["kind"]):
            return
        kind, namespace = to_object_key(body).group_kind, body["metadata"].get("namespace", "")
        if kind not in self.stage_kinds:
            self.stage_kinds.append(kind)
        if kind not in self._kinds or namespace not in {*self._namespaces, ""}:
            self._kinds.add(kind)
            self._namespaces.add(namespace)
            await self._write_parent(self._kinds, self._namespaces)

    async def _write_parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> None:
        parent = self.applyset.build_parent(kinds, namespaces)
        await self.client.apply(parent, manager=self.options.manager, force=True)

    async def _wait_for_labels(self, step: WaitForLabel) -> None:
        """Wait until all nodes have the fabric's label. Raises StuckError if no node has it after the time limit."""
        count = 0
        async for _ in iter_attempts(self.options.get_timeout(step.timeout_seconds)):
            count = await gates.count_labelled_nodes(self.client, step.label)
            if count >= step.node_count:
                return
            self.report(f"{count} of {step.node_count} nodes have label {step.label}")
        if not count:
            raise StuckError(f"no node has label {step.label}: {gates.LABEL_REMEDY}")
        self.report(f"continuing with {count} of {step.node_count} nodes: the others get the label once they are up")

    async def _check_gate(self, wait: AnyWait) -> gates.Gate:
        """Return the gate of a wait; a failed request closes the gate, since the next attempt may succeed."""
        try:
            return await gates.check_gate(self.client, wait)
        except KubeError as error:
            return gates.Gate(holds=False, missing=(str(error),), remedy="see that the API server answers")

    async def _delete_stale_members(self, candidates: Iterable[Object]) -> None:
        """Delete the candidates that this run has not applied. Raises StuckError, KubeError."""
        stale = [body for body in candidates if to_object_key(body) not in self.applied]
        self._check_loss(await describe_lost_pools(self.client, self.applyset, stale))
        removal = Removal(self.client, self.applyset, self.options, self.report, resumes=not self.applied)
        await removal.delete(order_for_removal(stale, self.stage_kinds), self._record_deletion)

    def _record_deletion(self, body: Object) -> None:
        self.changes.append(ObjectChange(format_object_name(body), "removed"))


def _drop_bookkeeping(body: Object) -> Object:
    """Return an object without what an API server may rewrite although an apply changes nothing.

    Managers are sorted by the second of their last write. Where an object has an empty map, an apply moves our entry
    past one of a later second, and the new order is stored as a new resourceVersion (IgnoreManagedFieldsTimestamps-
    Transformer of k8s.io/apiserver compares the entries in order).
    """
    metadata = {key: value for key, value in body["metadata"].items() if key not in _BOOKKEEPING}
    return {**body, "metadata": metadata}


async def _iter_in_thread(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield the items of an iterable that a thread advances: rendering an object of a large fabric takes seconds."""
    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield cast("_T", item)
