"""Runs of a stack from their record to their end: there, back to before the last one, and away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.rollout import history
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.history import Record
from trackbed.cluster.rollout.rollout import Manner, Rollout
from trackbed.cluster.stacks.install.steps import Apply, Step
from trackbed.cluster.stacks.stack import ROLLED_OUT, Wait


def before(client: Client, of: ApplySet, manner: Manner, steps: Iterable[Step]) -> str:
    """What a run of these steps would change, as it is now; packed, for `there`. Raises KubeError."""
    wanted = (one for step in steps if isinstance(step, Apply) for one in step.objects)
    return history.before(client, of, manner, wanted)


def there(work: Rollout, steps: Iterable[Step], packed: str | None) -> None:
    """Carry out the steps; `packed` is kept first, None where no object would change. Raises StuckError, KubeError."""
    if packed is not None:
        history.keep(work.client, work.of, work.manner, packed)
    work.carry_out(steps)
    history.mark(work.client, work.of, history.DONE)


def manner_back(manner: Manner) -> Manner:
    """How the way back is gone: objects are put back as they were, members or not, and no chart is touched."""
    return replace(manner, joins=False, install=None)


def steps_back(record: Record) -> tuple[Step, ...]:
    """What the way back applies. Raises KubeError where nothing could be kept."""
    objects = record.objects()
    return (Apply("", "what was there before the last run", objects),) if objects else ()


def back(work: Rollout, steps: Sequence[Step]) -> None:
    """Put everything back to before the last run: what it made goes, what it took away comes. As `there`."""
    history.mark(work.client, work.of, history.BEGUN)
    if steps:
        work.carry_out(steps)
    else:
        work.remove()
    for wait in rolled_out(one for step in steps if isinstance(step, Apply) for one in step.objects):
        work.wait_for(wait)
    history.mark(work.client, work.of, history.UNDONE)


def away(work: Rollout) -> None:
    """Remove all that the stack put there, and the way back with it."""
    work.remove()
    history.forget(work.client, work.of)


def rolled_out(objects: Iterable[Object]) -> tuple[Wait, ...]:
    """What can be waited for of objects of which no stack tells."""
    places = [one["metadata"] for one in objects if one["kind"] == "DaemonSet"]
    return tuple(Wait(f"daemonset/{place['name']}", ROLLED_OUT, place.get("namespace")) for place in places)
