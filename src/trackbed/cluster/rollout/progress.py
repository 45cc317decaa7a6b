"""How far one object is from what is waited for, and what its operator says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trackbed.cluster.api.answer import Object
from trackbed.cluster.stacks.stack import ROLLED_OUT

_REASONS = ("lastSyncError", "reason", "message")
"""Where operators say in `status` what is wrong."""
_PARTS = ("appliedStates", "nodeStates")
"""Where those with many parts say how each is: name, state, message."""
_SOUND = frozenset({"ready", "Succeeded", "ignore"})
_TROUBLE = {"Degraded": "True", "NamesAccepted": "False", "NonStructuralSchema": "True", "ReplicaFailure": "True"}
"""Conditions that tell of trouble, whichever is waited for -> with which status."""
_DRAIN = "sriovnetwork.openshift.io/current-state"
"""Where the SR-IOV operator says how far the drain of a node is."""
_SHOWN = 3


def meets(one: Object, until: str) -> bool:
    """Whether an object is as a Wait's `until` has it."""
    if until == ROLLED_OUT:
        return not _unrolled(one)
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        return condition(one, wanted).get("status") == "True"
    path, value = _parted(wanted)
    have = _at(one, path)
    return bool(have) if value is None else _text(have) == value


def condition(one: Object, kind: str) -> Object:
    """A condition of an object by its type; empty where it has none such."""
    listed: Sequence[Object] = one.get("status", {}).get("conditions") or ()
    return next((entry for entry in listed if entry.get("type") == kind), {})


def not_ready(node: Object) -> str:
    """Why a node runs no pods; empty where it does."""
    ready = condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    words = _words(ready)
    return f"not Ready: {words}" if words else "not Ready"


def short_of(one: Object, until: str) -> str:
    """What an object lacks, and why in its own words."""
    words = "; ".join(dict.fromkeys(_own(one, until)))
    return f"{_lack(one, until)}{f' ({words})' if words else ''}"


def _lack(one: Object, until: str) -> str:
    if until == ROLLED_OUT:
        return _unrolled(one)
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        status = condition(one, wanted).get("status")
        return f"{wanted} is {status}" if status else f"says nothing of {wanted} yet"
    path, value = _parted(wanted)
    have = _at(one, path)
    last = re.split(r"(?<!\\)\.", path.strip("{}"))[-1].replace("\\.", ".")
    return f"{last} is {_text(have)}, not {value}" if have is not None and value else f"has no {last} yet"


def _unrolled(one: Object) -> str:
    """What a DaemonSet lacks of being rolled out, as `kubectl rollout status` has it; empty where nothing."""
    status = one.get("status", {})
    if status.get("observedGeneration", 0) < one["metadata"].get("generation", 0):
        return "no controller has seen it yet"
    wanted = status.get("desiredNumberScheduled", 0)
    new, serve = status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0)
    return "" if min(new, serve) >= wanted else f"of {wanted} pods {new} are of this version, {serve} available"


def _own(one: Object, until: str) -> Iterator[str]:
    """What its operator says."""
    status = one.get("status", {})
    kind, _, wanted = until.partition("=")
    said = condition(one, wanted) if kind == "condition" else {} if until == ROLLED_OUT else status
    yield from filter(None, (_words(said),))
    for name, bad in _TROUBLE.items():
        entry = condition(one, name)
        if entry.get("status") == bad and name != wanted:
            yield f"{name} is {bad}: {_words(entry)}"
    parts = [part for name in _PARTS for part in status.get(name) or () if part.get("state") not in _SOUND]
    for part in parts[:_SHOWN]:
        yield ": ".join(filter(None, (part.get("name"), part.get("state"), part.get("message"))))
    if len(parts) > _SHOWN:
        yield f"and {len(parts) - _SHOWN} more"
    drain = one["metadata"].get("annotations", {}).get(_DRAIN, "Idle")
    yield from () if drain == "Idle" else (f"its node is at {drain}",)


def _words(said: Object) -> str:
    return ": ".join(str(said[key]) for key in _REASONS if said.get(key))


def _parted(wanted: str) -> tuple[str, str | None]:
    """Path and value of `{PATH}=VALUE`; no value where anything will do."""
    path, closed, value = wanted.rpartition("}")
    return path + closed, value.removeprefix("=") if value else None


def _at(one: Object, path: str) -> Any:  # noqa: ANN401 - whatever stands there
    r"""What a JSON path of plain keys leads to, {.status.allocatable.example\.com/rail0}; None where nothing is."""
    found: Any = one
    for key in re.split(r"(?<!\\)\.", path.strip("{}").lstrip(".")):
        found = found.get(key.replace("\\.", ".")) if isinstance(found, dict) else None
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
