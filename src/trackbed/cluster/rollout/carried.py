"""How the Fabrics of a cluster are carried out there: each one's state, and the nodes of all that are not sound.

Nodes are asked for as a table, as `kubectl get railnodes` does it: the server sends the printed columns alone, without
plans and managers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from trackbed.cluster.api.answer import Object, shaped
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.conditions import find

_SOUND = "Sound"
_FIRST = ("Failed", "Held", "Draining", "Changing", "Rebooting", "Waiting")
"""Stages in the order in which a person wants to read of them; others come after these."""
_WRONG = frozenset({"Halted", "Failed", "Invalid"})


@dataclass(frozen=True, slots=True)
class Carried:
    """One Fabric: counts of its nodes, and in one word and in full how it stands."""

    name: str
    nodes: int
    sound: int
    changing: int
    waiting: int
    failed: int
    absent: int
    offered: int | None
    """Nodes that offer each of their rails; None where their stack has no resource for each."""
    state: str
    """Complete, Rolling, Paused, Halted, Failed, Invalid; empty where no controller has seen it."""
    why: str

    @property
    def wrong(self) -> bool:
        """Whether somebody must look: something failed or halted, or it cannot be planned."""
        return bool(self.failed) or self.state in _WRONG


@dataclass(frozen=True, slots=True)
class Unsound:
    """A node that is not Sound; `since` is how long so, as kubectl prints it: 5m, 3h12m, 4d."""

    name: str
    fabric: str
    stage: str
    since: str
    why: str


def carried(client: Client) -> tuple[Carried, ...]:
    """Every Fabric by name; none where the cluster has no such kind. Raises KubeError."""
    try:
        return tuple(_carried(one) for one in client.list(railnode.API_VERSION, "Fabric"))
    except UnknownKindError:
        return ()


def unsound(client: Client) -> tuple[Unsound, ...]:
    """Every node that is not Sound, failed ones first. Raises KubeError."""
    try:
        return tuple(sorted(_unsound(client), key=_order))
    except UnknownKindError:
        return ()


def _carried(one: Object) -> Carried:
    name = one["metadata"]["name"]
    told = shaped(one.get("status") or {}, fabric.FabricStatus, f"Fabric/{name}")
    accepted, progressing = (find(told.conditions, kind) for kind in ("Accepted", "Progressing"))
    state = accepted if accepted.status == "False" else progressing
    counts = (told.nodes, told.sound, told.changing, told.waiting, told.failed, told.absent)
    offered = None if told.offered is msgspec.UNSET else told.offered
    return Carried(name, *counts, offered, state.reason, state.message)


def _unsound(client: Client) -> Iterator[Unsound]:
    for row in client.table(railnode.API_VERSION, railnode.KIND):
        if row.get("Stage") != _SOUND:
            yield Unsound(*(str(row.get(title) or "") for title in ("Name", "Fabric", "Stage", "Since", "Why")))


def _order(one: Unsound) -> tuple[int, str, str]:
    return _FIRST.index(one.stage) if one.stage in _FIRST else len(_FIRST), one.fabric, one.name
