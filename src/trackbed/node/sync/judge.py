"""Conditions of a RailNode and next actions for the outcomes of its host: pure functions."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import (
    BY_HAND,
    CONTESTED,
    DRIFTED,
    FAILED,
    MISFIT,
    NOT_REPAIRED,
    PREPARED,
    Difference,
    RailNodeSlice,
)
from trackbed.fleet.outcome import Outcome
from trackbed.host.steps.firmware import STEP as FIRMWARE
from trackbed.host.transaction.apply import FILES
from trackbed.node.sync.contest import SettingKey

_MAX_DIFFERENCES = 20
"""Maximum number of differences in a status; the message of the condition has their total."""
MAX_TRIES = 3
"""Number of failed applies after which an operator must intervene."""
_MAX_CHARACTERS = 512

NextAction = Literal["wait", "repair", "apply", "reboot", "retry"]
"""Wait for a change; repair drift in place; apply the plan; reboot the host; retry after a delay."""


class Drift(NamedTuple):
    """What the agent knows of a node beside its differences."""

    reached: bool = False
    """Whether the host had reached the plan before, so that what differs now has drifted."""
    contested: frozenset[SettingKey] = frozenset()
    """Settings that are not repaired, because another program sets them."""


class Judgement(NamedTuple):
    """The condition Prepared of a RailNode, and what to do next."""

    condition: Condition
    action: NextAction
    is_complete: bool = False
    """Whether the agent can bring about no more of the plan: the host has reached it."""


def judge_comparison(outcome: Outcome, spec: RailNodeSlice, tries: int, drift: Drift) -> Judgement:
    """Judge the outcome of a comparison. `tries`: failed applies of this plan under this permission."""
    if outcome.kind == "same":
        return Judgement(Condition(PREPARED, "True", "AsPlanned"), "wait", is_complete=True)
    if outcome.kind != "differs":
        return Judgement(Condition(PREPARED, "Unknown", "NotCompared", outcome.message[:_MAX_CHARACTERS]), "retry")
    message = _format_differences(list(_iter_differences(outcome)))
    if (misfit := outcome.answer.get("misfit")) and not spec.allow_removal:
        return Judgement(Condition(PREPARED, "False", MISFIT, misfit[:_MAX_CHARACTERS]), "wait")
    if not spec.may_change:
        return _judge_drift(outcome, spec, drift, message)
    if tries >= MAX_TRIES:
        return Judgement(Condition(PREPARED, "False", FAILED, message), "wait")
    return Judgement(Condition(PREPARED, "False", "Applying", message), "apply")


def _judge_drift(outcome: Outcome, spec: RailNodeSlice, drift: Drift, message: str) -> Judgement:
    """Judge the differences of a node that is not drained: repair them, wait for a drain, or for a person.

    A drain is due for what takes devices from pods, and for a plan that the node has not reached: running pods have the
    addresses and traffic class of the plan before. None is due for what the agent cannot change. A firmware setting
    that a person must write comes before all else, since its reset would need another drain.
    """
    differing, manual = frozenset(list_repairs(outcome)), list(_iter_manual_changes(outcome))
    due = differing - drift.contested
    if due and drift.reached and spec.may_repair:
        return Judgement(Condition(PREPARED, "False", "Repairing", message), "repair")
    needs_drain = any(change.get("drain") for change in outcome.answer.get("changes", ()))
    if any(change["step"] == FIRMWARE for change in manual):
        reason = BY_HAND
    elif needs_drain or (due and not drift.reached):
        reason = "Differs"
    elif due:
        reason = DRIFTED
    else:
        reason = CONTESTED if differing else BY_HAND
    if reason == BY_HAND:
        message = _format_differences([_to_difference(change) for change in manual])
    is_complete = not (needs_drain or due)
    return Judgement(Condition(PREPARED, "False", reason, message), "wait", is_complete)


def judge_repair(again: Judgement, failure: str) -> Judgement:
    """Judge the comparison after a repair. What still differs is repaired at the next comparison, not at once."""
    if again.action != "repair":
        return again
    message = f"{failure or 'it differs again'}: {again.condition.message}"[:_MAX_CHARACTERS]
    return Judgement(Condition(PREPARED, "False", NOT_REPAIRED, message), "wait")


def list_repairs(outcome: Outcome) -> tuple[SettingKey, ...]:
    """Return the settings and files that differ and can be changed under running pods."""
    changes = [change for change in outcome.answer.get("changes", ()) if change.get("repairable")]
    files = [(FILES, path) for path in outcome.answer.get("files", ())]
    return (*((change["step"], change["what"]) for change in changes), *files)


def describe_differences(outcome: Outcome) -> dict[SettingKey, str]:
    """Return present and planned value of each difference, by setting."""
    changes = outcome.answer.get("changes", ())
    return {(change["step"], change["what"]): f"{change['have']}, not {change['want']}" for change in changes}


def judge_apply(outcome: Outcome, spec: RailNodeSlice, boot_id: str, tries: int) -> Judgement:
    """Judge the outcome of an apply. `boot_id` is the current boot; `tries` includes this apply."""
    if outcome.is_good and not outcome.needs_reboot:
        return Judgement(Condition(PREPARED, "True", "AsPlanned"), "wait", is_complete=True)
    if outcome.is_good:
        message = "; ".join(map(_format_difference, list_differences(outcome)))[:_MAX_CHARACTERS]
        if spec.may_reboot == boot_id:
            return Judgement(Condition(PREPARED, "False", "Rebooting", message), "reboot")
        return Judgement(Condition(PREPARED, "False", "NeedsReboot", message), "wait")
    only_manual = outcome.kind == "left" and all(map(_is_manual, outcome.answer.get("changes", ())))
    if tries >= MAX_TRIES or only_manual:
        return Judgement(Condition(PREPARED, "False", FAILED, outcome.message[:_MAX_CHARACTERS]), "wait")
    return Judgement(Condition(PREPARED, "False", "Retrying", outcome.message[:_MAX_CHARACTERS]), "retry")


def list_differences(outcome: Outcome) -> tuple[Difference, ...]:
    """Return the differences between host and plan, at most _MAX_DIFFERENCES."""
    return tuple(_iter_differences(outcome))[:_MAX_DIFFERENCES]


def is_firmware_pending(outcome: Outcome, previously_pending: bool) -> bool:  # noqa: FBT001 - an earlier result, not an option
    """Return whether the NICs' firmware differs, or `previously_pending` if the outcome lists no changes."""
    changes = outcome.answer.get("changes")
    return previously_pending if changes is None else any(change["step"] == FIRMWARE for change in changes)


def _is_manual(change: Mapping[str, Any]) -> bool:
    """Return whether only a person can make a change, also on a drained node."""
    return not (change.get("drain") or change.get("repairable") or change.get("reboot"))


def _iter_manual_changes(outcome: Outcome) -> Iterator[Mapping[str, Any]]:
    return (change for change in outcome.answer.get("changes", ()) if _is_manual(change))


def _iter_differences(outcome: Outcome) -> Iterator[Difference]:
    yield from map(_to_difference, outcome.answer.get("changes", ()))
    if outcome.kind == "differs":
        for path in outcome.answer.get("files", ()):
            yield Difference(FILES, f"{path} is to be written")


def _to_difference(change: Mapping[str, Any]) -> Difference:
    advice = f"; {change['advice']}" if change.get("advice") else ""
    text = f"{change['what']}: {change['have']} -> {change['want']}{advice}"
    return Difference(change["step"], text[:_MAX_CHARACTERS])


def _format_differences(differences: list[Difference]) -> str:
    if not differences:
        return "it differs"
    return f"{len(differences)} differ: {_format_difference(differences[0])}"[:_MAX_CHARACTERS]


def _format_difference(difference: Difference) -> str:
    return f"{difference.step}: {difference.description}"
