"""What an object lacks for the condition of a wait, and the reasons in its status.

A condition is ROLLED_OUT, `condition=TYPE` or `jsonpath={PATH}[=VALUE]`, like --for of `kubectl wait`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.stack import ROLLED_OUT

_REASON_FIELDS = ("lastSyncError", "reason", "message")
"""Fields of `status` in which operators write reasons."""
_PART_FIELDS = ("appliedStates", "nodeStates")
"""Fields of `status` that list parts of an object, each with name, state and message."""
_SOUND_STATES = frozenset({"ready", "Succeeded", "ignore"})
_TROUBLE_CONDITIONS = {
    "Degraded": "True",
    "NamesAccepted": "False",
    "NonStructuralSchema": "True",
    "ReplicaFailure": "True",
}
"""Type of a condition -> its status if something is wrong."""
_DRAIN_ANNOTATION = "sriovnetwork.openshift.io/current-state"
"""Annotation of the SR-IOV operator with the state of a node's drain."""
_NO_DRAIN = "Idle"
_SHOWN_PARTS = 3
"""Largest number of parts that are described."""


def meets_condition(body: Object, condition: str) -> bool:
    """Return whether an object meets the condition of a wait."""
    if condition == ROLLED_OUT:
        return not _describe_rollout(body)
    kind, _, wanted = condition.partition("=")
    if kind == "condition":
        return find_condition(body, wanted).get("status") == "True"
    path, value = _parse_jsonpath_condition(wanted)
    have = _read_path(body, path)
    return bool(have) if value is None else _format_value(have) == value


def find_condition(body: Object, condition_type: str) -> Object:
    """Return the condition of a type in an object's status; empty if there is none."""
    conditions: Sequence[Object] = body.get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if entry.get("type") == condition_type), {})


def describe_unready(node: Object) -> str:
    """Return why a node is not Ready, as text; empty if it is Ready."""
    ready = find_condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    reasons = _join_reasons(ready)
    return f"not Ready: {reasons}" if reasons else "not Ready"


def is_draining(state: Object) -> bool:
    """Return whether the SR-IOV operator drains the node of a SriovNetworkNodeState."""
    return bool(_read_drain_state(state) != _NO_DRAIN)


def describe_shortfall(body: Object, condition: str) -> str:
    """Return what an object lacks for a condition, with the reasons in its status, as text."""
    reasons = "; ".join(dict.fromkeys(_iter_reasons(body, condition)))
    return f"{_describe_gap(body, condition)}{f' ({reasons})' if reasons else ''}"


def _describe_gap(body: Object, condition: str) -> str:
    if condition == ROLLED_OUT:
        return _describe_rollout(body)
    kind, _, wanted = condition.partition("=")
    if kind == "condition":
        status = find_condition(body, wanted).get("status")
        return f"{wanted} is {status}" if status else f"says nothing of {wanted} yet"
    path, value = _parse_jsonpath_condition(wanted)
    have = _read_path(body, path)
    last = re.split(r"(?<!\\)\.", path.strip("{}"))[-1].replace("\\.", ".")
    return f"{last} is {_format_value(have)}, not {value}" if have is not None and value else f"has no {last} yet"


def _describe_rollout(body: Object) -> str:
    """Return which pods of a DaemonSet are missing, like `kubectl rollout status`; empty if it is rolled out."""
    status = body.get("status", {})
    if status.get("observedGeneration", 0) < body["metadata"].get("generation", 0):
        return "no controller has seen it yet"
    total = status.get("desiredNumberScheduled", 0)
    new, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return "" if min(new, available) >= total else f"of {total} pods {new} are of this version, {available} available"


def _iter_reasons(body: Object, condition: str) -> Iterator[str]:
    """Yield the reasons in an object's status why it does not meet a condition."""
    status = body.get("status", {})
    kind, _, wanted = condition.partition("=")
    source = find_condition(body, wanted) if kind == "condition" else {} if condition == ROLLED_OUT else status
    yield from filter(None, (_join_reasons(source),))
    for name, bad in _TROUBLE_CONDITIONS.items():
        entry = find_condition(body, name)
        if entry.get("status") == bad and name != wanted:
            yield f"{name} is {bad}: {_join_reasons(entry)}"
    parts = [part for name in _PART_FIELDS for part in status.get(name) or () if part.get("state") not in _SOUND_STATES]
    for part in parts[:_SHOWN_PARTS]:
        yield ": ".join(filter(None, (part.get("name"), part.get("state"), part.get("message"))))
    if len(parts) > _SHOWN_PARTS:
        yield f"and {len(parts) - _SHOWN_PARTS} more"
    drain = _read_drain_state(body)
    yield from () if drain == _NO_DRAIN else (f"its node is at {drain}",)


def _read_drain_state(body: Object) -> str:
    return str(body["metadata"].get("annotations", {}).get(_DRAIN_ANNOTATION, _NO_DRAIN))


def _join_reasons(source: Object) -> str:
    return ": ".join(str(source[key]) for key in _REASON_FIELDS if source.get(key))


def _parse_jsonpath_condition(expression: str) -> tuple[str, str | None]:
    """Return path and value of `{PATH}=VALUE`; a value of None means any value."""
    path, closing_brace, value = expression.rpartition("}")
    return path + closing_brace, value.removeprefix("=") if value else None


def _read_path(body: Object, path: str) -> Any:  # noqa: ANN401 - JSON holds anything
    r"""Return the value at a JSON path of plain keys, {.status.allocatable.example\.com/rail0}; None if absent."""
    value: Any = body
    for key in re.split(r"(?<!\\)\.", path.strip("{}").lstrip(".")):
        value = value.get(key.replace("\\.", ".")) if isinstance(value, dict) else None
    return value


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
