"""Runs of a stack with their records: apply the stack, roll back its last run, remove it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import history
from trackbed.cluster.rollout.applyset import ApplySet, to_object_key
from trackbed.cluster.rollout.history import RunRecord
from trackbed.cluster.rollout.options import RunOptions
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile, Step
from trackbed.cluster.stacks.stack import ROLLED_OUT, Wait


async def pack_current_state(
    client: DynamicClient, applyset: ApplySet, options: RunOptions, steps: Iterable[Step]
) -> str:
    """Return the current objects of the set and of the steps, packed for `apply_forward`. Raises KubeError."""
    objects = (
        (body, options.adapt_to_step(step)) for step in steps if isinstance(step, ApplyFile) for body in step.objects
    )
    return await history.pack_objects(client, applyset, options.manager, objects)


async def apply_forward(run: StackRun, steps: Iterable[Step], packed: str | None) -> None:
    """Save `packed` as the run's record, unless it is None, then apply the steps. Raises StuckError, KubeError."""
    if packed is not None:
        await history.save_record(run.client, run.applyset, run.options, packed)
    await run.apply_steps(steps)
    await history.set_run_state(run.client, run.applyset, history.DONE)


def to_undo_options(options: RunOptions) -> RunOptions:
    """Return the options of the undo of a run: no label is added, and no chart is installed."""
    return replace(options, adds_label=False, install=None)


def build_undo_steps(record: RunRecord) -> tuple[Step, ...]:
    """Return the steps of an undo; empty if the set had no objects. Raises KubeError for an unusable record."""
    objects = record.unpack_objects()
    return (ApplyFile("", "what was there before the last run", objects),) if objects else ()


async def roll_back(run: StackRun, steps: Sequence[Step]) -> None:
    """Restore the state before the last run by the steps of its undo. Raises StuckError, KubeError."""
    await history.set_run_state(run.client, run.applyset, history.BEGUN)
    if steps:
        await run.apply_steps(steps)
    else:
        await run.delete_members()
    for wait in build_rollout_waits(_iter_objects(steps)):
        await run.wait_for_gate(wait)
    await history.set_run_state(run.client, run.applyset, history.UNDONE)


async def remove_stack(run: StackRun) -> None:
    """Delete all objects of the stack, and the records of its runs. Raises StuckError, KubeError."""
    await run.delete_members()
    await history.delete_records(run.client, run.applyset)


def build_rollout_waits(objects: Iterable[Object]) -> tuple[Wait, ...]:
    """Return a wait for the roll-out of each DaemonSet among the objects."""
    daemon_sets = [body["metadata"] for body in objects if body["kind"] == "DaemonSet"]
    return tuple(
        Wait(f"daemonset/{metadata['name']}", ROLLED_OUT, metadata.get("namespace")) for metadata in daemon_sets
    )


def list_kinds(steps: Iterable[Step]) -> list[str]:
    """Return the kinds of all steps (`ObjectKey.group_kind`) in the order in which a run applies them."""
    return list(dict.fromkeys(to_object_key(body).group_kind for body in _iter_objects(steps)))


def _iter_objects(steps: Iterable[Step]) -> Iterable[Object]:
    return (body for step in steps if isinstance(step, ApplyFile) for body in step.objects)
