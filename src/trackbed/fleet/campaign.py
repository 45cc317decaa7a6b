"""A whole apply on many hosts: canary, batches, reboots, log.

    batch ──> apply ──> log ──> reboot those that wait for it ──> another boot id ──> diff ──> log ──> next batch

The reboot of a batch ends before the next batch begins, so never more hosts are away than a batch has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet.log import Log
from trackbed.fleet.order import Order, follow
from trackbed.fleet.outcome import Outcome
from trackbed.fleet.run import Way, run
from trackbed.fleet.task import Task, Verb, task

REBOOT_SECONDS: Final = 1800
"""What a server may take to come back: firmware that is being written, memory that is being tested."""
_ASK_SECONDS: Final = 15
"""How long one question for the boot id may take."""
_PAUSE_SECONDS: Final = 2

Told = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is to be done on which hosts, and how."""

    nodes: Mapping[str, NodePlan]
    way: Way
    order: Order = field(default_factory=Order)
    persist: str = "auto"
    seconds: int = 300
    reboot: bool = False

    def task(self, verb: Verb, name: str) -> Task:
        """The request for one host."""
        return task(verb, self.nodes[name], self.persist, self.seconds)


def diff_all(campaign: Campaign, told: Told) -> None:
    """Compare every host with its plan; `told` hears of each as it ends."""
    run((campaign.task("diff", name) for name in campaign.nodes), campaign.way, told)


def apply_all(campaign: Campaign, log: Log, told: Told) -> None:
    """Apply to every host that the log does not say is done; `told` hears of each, also of those not begun.

    Raises OSError when the log cannot be written, ValueError on a batch that is none.
    """
    tasks = {name: campaign.task("apply", name) for name in campaign.nodes}
    todo = [name for name in tasks if not log.has(tasks[name])]
    for name in tasks.keys() - set(todo):
        told(Outcome(name, "same", "done by an earlier run"))
    for batch, done in follow(todo, campaign.order, lambda names: _batch(campaign, tasks, names, (log, told))):
        for name in () if done else batch:
            told(Outcome(name, "not-begun", "not begun after too many failures; go on with --resume"))


def _batch(
    campaign: Campaign, tasks: Mapping[str, Task], names: Sequence[str], ends: tuple[Log, Told]
) -> Sequence[Outcome]:
    log, told = ends
    waiting: list[str] = []
    outcomes: list[Outcome] = []

    def ended(outcome: Outcome) -> None:
        if campaign.reboot and outcome.good and outcome.reboots:
            waiting.append(outcome.node)
            return
        log.write(tasks[outcome.node], outcome)
        outcomes.append(outcome)
        told(outcome)

    run((tasks[name] for name in names), campaign.way, ended)
    if waiting:
        for outcome in _rebooted(campaign, waiting):
            log.write(tasks[outcome.node], outcome)
            outcomes.append(outcome)
            told(outcome)
    return outcomes


def _rebooted(campaign: Campaign, names: Sequence[str]) -> list[Outcome]:
    """Reboot hosts, wait until they have, and compare them again."""
    before = _asked(campaign, "reboot", names)
    old = {name: outcome.answer["boot"] for name, outcome in before.items() if "boot" in outcome.answer}
    away = set(old)
    deadline = time.monotonic() + REBOOT_SECONDS
    while away and time.monotonic() < deadline:
        now = _asked(campaign, "boot", sorted(away))
        away -= {name for name, outcome in now.items() if outcome.answer.get("boot", old[name]) != old[name]}
        if away:
            time.sleep(_PAUSE_SECONDS)
    back = [name for name in old if name not in away]
    after = _asked(campaign, "diff", back)
    return [
        *(before[name] for name in names if name not in old),
        *(Outcome(name, "timeout", _GONE) for name in sorted(away)),
        *(_settled(after[name]) for name in back),
    ]


_GONE: Final = f"it did not come back within {REBOOT_SECONDS} s of its reboot; look at its console"


def _settled(outcome: Outcome) -> Outcome:
    if outcome.kind == "same":
        return msgspec.structs.replace(outcome, kind="applied", told="changes made, rebooted, as planned")
    told = outcome.told.partition(";")[0]
    later = msgspec.structs.replace(outcome, kind="left", told=f"after its reboot: {told}; see: trackbed diff --nodes")
    return later if outcome.kind == "differs" else outcome


def _asked(campaign: Campaign, verb: Verb, names: Sequence[str]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    tasks = [campaign.task(verb, name) for name in names]
    if verb == "boot":
        tasks = [msgspec.structs.replace(one, seconds=_ASK_SECONDS) for one in tasks]
    run(tasks, campaign.way, lambda outcome: found.update({outcome.node: outcome}))
    return found
