"""The apply on many hosts: canary, batches, reboots, log.

    batch ──> apply ──> log ──> reboot hosts that need it ──> wait for another boot id ──> diff ──> log ──> next batch

The reboots of a batch end before the next batch begins, so at most one batch of hosts is down at a time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet.log import Log
from trackbed.fleet.order import Order, run_batches
from trackbed.fleet.outcome import NOT_BEGUN, Outcome
from trackbed.fleet.run import SshOptions, run_tasks
from trackbed.fleet.task import HostTask, Verb, build_task

REBOOT_SECONDS: Final = 1800
"""Time limit of a reboot, in which a server may write firmware and test its memory."""
_BOOT_ID_SECONDS: Final = 15
"""Time limit of one request for the boot id."""
_PAUSE_SECONDS: Final = 2

Report = Callable[[Outcome], None]
"""Receives the outcome of each host as it ends."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The hosts of a diff, an apply or an undo, and its options."""

    nodes: Mapping[str, NodePlan]
    ssh: SshOptions
    order: Order = field(default_factory=Order)
    persist: str = "auto"
    seconds: int = 300
    reboot: bool = False
    removals: int | None = None
    """For apply: the number of removals on each host that the user confirmed."""

    verb: Literal["apply", "undo"] = "apply"
    """What `apply_all` does."""

    def build_task(self, verb: Verb, name: str) -> HostTask:
        """Return the task for one host."""
        return build_task(verb, self.nodes[name], self.persist, self.seconds, self.removals)


def diff_all(campaign: Campaign, report: Report) -> None:
    """Compare every host with its plan; `report` receives the outcome of each."""
    run_tasks((campaign.build_task("diff", name) for name in campaign.nodes), campaign.ssh, report)


def apply_all(campaign: Campaign, log: Log, report: Report) -> None:
    """Apply to every host that the log does not have as completed, or undo the last apply there.

    Hosts that were not begun are reported, too. Raises OSError if the log cannot be written, ValueError if the batch
    size is malformed.
    """
    tasks = {name: campaign.build_task(campaign.verb, name) for name in campaign.nodes}
    pending = [name for name, task in tasks.items() if not log.is_done(task)]
    for name in tasks.keys() - set(pending):
        report(Outcome(name, "same", "done by an earlier run"))

    def run_batch(names: Sequence[str]) -> list[Outcome]:
        outcomes: list[Outcome] = []

        def record_outcome(outcome: Outcome) -> None:
            log.append_outcome(tasks[outcome.node], outcome)
            outcomes.append(outcome)
            report(outcome)

        _apply_batch(campaign, [tasks[name] for name in names], record_outcome)
        return outcomes

    options = "--undo --resume" if campaign.verb == "undo" else "--resume"
    for batch, was_run in run_batches(pending, campaign.order, run_batch):
        for name in () if was_run else batch:
            report(
                Outcome(name, NOT_BEGUN, f"not begun after a failed canary or too many failures; go on with {options}")
            )


def _apply_batch(campaign: Campaign, tasks: Sequence[HostTask], record_outcome: Report) -> None:
    """Apply to a batch of hosts and reboot those that need it; `record_outcome` receives each host's last outcome."""
    pending_reboots: list[str] = []

    def handle_outcome(outcome: Outcome) -> None:
        if campaign.reboot and outcome.is_good and outcome.needs_reboot:
            pending_reboots.append(outcome.node)
        else:
            record_outcome(outcome)

    run_tasks(tasks, campaign.ssh, handle_outcome)
    for outcome in _reboot_hosts(campaign, pending_reboots) if pending_reboots else ():
        record_outcome(outcome)


def _reboot_hosts(campaign: Campaign, names: Sequence[str]) -> list[Outcome]:
    """Reboot hosts, wait until they are up again, and compare them with their plan."""
    accepted = _send_requests(campaign, "reboot", names)
    old_boots = {name: outcome.answer["boot"] for name, outcome in accepted.items() if "boot" in outcome.answer}
    down = set(old_boots)
    deadline = time.monotonic() + REBOOT_SECONDS
    while down and time.monotonic() < deadline:
        boots = _send_requests(campaign, "boot", sorted(down))
        down -= {
            name for name, outcome in boots.items() if outcome.answer.get("boot", old_boots[name]) != old_boots[name]
        }
        if down:
            time.sleep(_PAUSE_SECONDS)
    up = [name for name in old_boots if name not in down]
    comparisons = _send_requests(campaign, "diff", up)
    message = f"it did not come back within {REBOOT_SECONDS} s of its reboot; look at its console"
    return [
        *(accepted[name] for name in names if name not in old_boots),
        *(Outcome(name, "timeout", message) for name in sorted(down)),
        *(_to_apply_outcome(comparisons[name]) for name in up),
    ]


def _to_apply_outcome(comparison: Outcome) -> Outcome:
    """Convert the outcome of the diff after a reboot to the outcome of the whole apply."""
    if comparison.kind == "same":
        return msgspec.structs.replace(comparison, kind="applied", message="changes made, rebooted, as planned")
    if comparison.kind != "differs":
        return comparison
    differences = comparison.message.partition(";")[0]
    message = f"after its reboot: {differences}; see: trackbed diff --nodes"
    return msgspec.structs.replace(comparison, kind="left", message=message)


def _send_requests(campaign: Campaign, verb: Verb, names: Sequence[str]) -> dict[str, Outcome]:
    """Send one request to each host; return the outcomes by host."""
    outcomes: dict[str, Outcome] = {}
    tasks = [campaign.build_task(verb, name) for name in names]
    if verb == "boot":
        tasks = [msgspec.structs.replace(task, seconds=_BOOT_ID_SECONDS) for task in tasks]
    run_tasks(tasks, campaign.ssh, lambda outcome: outcomes.update({outcome.node: outcome}))
    return outcomes
