"""Runs of a stack with their record: apply it, roll back to before the last run, remove it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import history
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.history import RunRecord
from trackbed.cluster.rollout.options import RunOptions
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import Apply, Step
from trackbed.cluster.stacks.stack import ROLLED_OUT, Wait


async def pack_before(client: DynamicClient, applyset: ApplySet, options: RunOptions, steps: Iterable[Step]) -> str:
    """Return the current state of the objects of the steps, packed for `apply_forward`. Raises KubeError."""
    return await history.pack_objects(client, applyset, options, _list_objects(steps))


async def apply_forward(run: StackRun, steps: Iterable[Step], packed: str | None) -> None:
    """Record `packed` (None where no object would change), then apply the steps. Raises StuckError, KubeError."""
    if packed is not None:
        await history.save_record(run.client, run.applyset, run.options, packed)
    await run.apply_steps(steps)
    await history.mark_run(run.client, run.applyset, history.DONE)


def to_undo_options(options: RunOptions) -> RunOptions:
    """Return the options of an undo: objects are restored as they were, members or not, and no chart is touched."""
    return replace(options, joins=False, install=None)


def build_undo_steps(record: RunRecord) -> tuple[Step, ...]:
    """Return the steps of an undo. Raises KubeError where the record is empty or unreadable."""
    objects = record.unpack_objects()
    return (Apply("", "what was there before the last run", objects),) if objects else ()


async def roll_back(run: StackRun, steps: Sequence[Step]) -> None:
    """Restore the state before the last run. Raises StuckError, KubeError."""
    await history.mark_run(run.client, run.applyset, history.BEGUN)
    if steps:
        await run.apply_steps(steps)
    else:
        await run.remove()
    for wait in build_rollout_waits(_list_objects(steps)):
        await run.wait_for(wait)
    await history.mark_run(run.client, run.applyset, history.UNDONE)


async def remove(run: StackRun) -> None:
    """Delete all objects of the stack, and the records of its runs."""
    await run.remove()
    await history.delete_records(run.client, run.applyset)


def build_rollout_waits(objects: Iterable[Object]) -> tuple[Wait, ...]:
    """Return a wait for each DaemonSet, for objects without a stack."""
    places = [body["metadata"] for body in objects if body["kind"] == "DaemonSet"]
    return tuple(Wait(f"daemonset/{place['name']}", ROLLED_OUT, place.get("namespace")) for place in places)


def _list_objects(steps: Iterable[Step]) -> Iterable[Object]:
    return (body for step in steps if isinstance(step, Apply) for body in step.objects)
