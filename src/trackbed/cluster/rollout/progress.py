"""Progress of one object towards a condition, and the reasons that its operator gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.stack import ROLLED_OUT

_REASONS = ("lastSyncError", "reason", "message")
"""Fields of `status` in which operators give reasons."""
_PARTS = ("appliedStates", "nodeStates")
"""Fields of `status` that list the parts of an object: name, state, message."""
_SOUND = frozenset({"ready", "Succeeded", "ignore"})
_TROUBLE = {"Degraded": "True", "NamesAccepted": "False", "NonStructuralSchema": "True", "ReplicaFailure": "True"}
"""Condition that indicates trouble -> its status in that case."""
_DRAIN = "sriovnetwork.openshift.io/current-state"
"""Annotation of the SR-IOV operator with the progress of a node's drain."""
_SHOWN = 3


def is_met(body: Object, until: str) -> bool:
    """Return whether an object meets a Wait's `until`."""
    if until == ROLLED_OUT:
        return not _describe_rollout(body)
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        return find_condition(body, wanted).get("status") == "True"
    path, value = _split_path(wanted)
    have = _dig(body, path)
    return bool(have) if value is None else _format_value(have) == value


def find_condition(body: Object, kind: str) -> Object:
    """Return a condition of an object by its type; empty where there is none."""
    conditions: Sequence[Object] = body.get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if entry.get("type") == kind), {})


def describe_unready(node: Object) -> str:
    """Return why a node runs no pods; empty where it does."""
    ready = find_condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    reasons = _join_reasons(ready)
    return f"not Ready: {reasons}" if reasons else "not Ready"


def describe_shortfall(body: Object, until: str) -> str:
    """Return what an object lacks, and why by its status."""
    reasons = "; ".join(dict.fromkeys(_read_reasons(body, until)))
    return f"{_describe_gap(body, until)}{f' ({reasons})' if reasons else ''}"


def _describe_gap(body: Object, until: str) -> str:
    if until == ROLLED_OUT:
        return _describe_rollout(body)
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        status = find_condition(body, wanted).get("status")
        return f"{wanted} is {status}" if status else f"says nothing of {wanted} yet"
    path, value = _split_path(wanted)
    have = _dig(body, path)
    last = re.split(r"(?<!\\)\.", path.strip("{}"))[-1].replace("\\.", ".")
    return f"{last} is {_format_value(have)}, not {value}" if have is not None and value else f"has no {last} yet"


def _describe_rollout(body: Object) -> str:
    """Return what a DaemonSet lacks of being rolled out, as `kubectl rollout status` has it; empty where nothing."""
    status = body.get("status", {})
    if status.get("observedGeneration", 0) < body["metadata"].get("generation", 0):
        return "no controller has seen it yet"
    total = status.get("desiredNumberScheduled", 0)
    new, available = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return "" if min(new, available) >= total else f"of {total} pods {new} are of this version, {available} available"


def _read_reasons(body: Object, until: str) -> Iterator[str]:
    """Yield the reasons that its operator gives."""
    status = body.get("status", {})
    kind, _, wanted = until.partition("=")
    source = find_condition(body, wanted) if kind == "condition" else {} if until == ROLLED_OUT else status
    yield from filter(None, (_join_reasons(source),))
    for name, bad in _TROUBLE.items():
        entry = find_condition(body, name)
        if entry.get("status") == bad and name != wanted:
            yield f"{name} is {bad}: {_join_reasons(entry)}"
    parts = [part for name in _PARTS for part in status.get(name) or () if part.get("state") not in _SOUND]
    for part in parts[:_SHOWN]:
        yield ": ".join(filter(None, (part.get("name"), part.get("state"), part.get("message"))))
    if len(parts) > _SHOWN:
        yield f"and {len(parts) - _SHOWN} more"
    drain = body["metadata"].get("annotations", {}).get(_DRAIN, "Idle")
    yield from () if drain == "Idle" else (f"its node is at {drain}",)


def _join_reasons(source: Object) -> str:
    return ": ".join(str(source[key]) for key in _REASONS if source.get(key))


def _split_path(wanted: str) -> tuple[str, str | None]:
    """Return path and value of `{PATH}=VALUE`; the value is None where any will do."""
    path, closed, value = wanted.rpartition("}")
    return path + closed, value.removeprefix("=") if value else None


def _dig(body: Object, path: str) -> Any:  # noqa: ANN401 - JSON holds anything
    r"""Return the value at a JSON path of plain keys, {.status.allocatable.example\.com/rail0}; None where absent."""
    value: Any = body
    for key in re.split(r"(?<!\\)\.", path.strip("{}").lstrip(".")):
        value = value.get(key.replace("\\.", ".")) if isinstance(value, dict) else None
    return value


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
