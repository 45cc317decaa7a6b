"""How a controller brings a change of the Fabric to the nodes of a living cluster.

rollout:
  maxUnavailable: 5%
  canary: 1
  maxFailures: 1%
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from trackbed.fabric.model.model import NUMBER_OR_TEXT, FabricModel, make_error

_AMOUNT = re.compile(r"(?P<share>[0-9]{1,3})%|(?P<number>[0-9]{1,6})")
_WHOLE = 100


def _amount(value: object) -> object:
    found = _AMOUNT.fullmatch(str(value))
    if not found or int(found["share"] or 0) > _WHOLE:
        raise make_error("bad-amount", f"{value!r} is no number of nodes; write one as 2, or a share of all as 5%")
    return str(value)


Amount = Annotated[str, BeforeValidator(_amount), NUMBER_OR_TEXT]
"""A number of nodes, or a share of all: 2, 5%."""


def count_nodes(amount: str, nodes: int) -> int:
    """How many of so many nodes an amount is; a share is rounded down, and one above 0 % is a node at least."""
    found = _AMOUNT.fullmatch(amount)
    assert found is not None  # noqa: S101 - an Amount was read by the same pattern
    if found["number"]:
        return int(found["number"])
    share = int(found["share"])
    return max(nodes * share // _WHOLE, 1 if share else 0)


class FirmwareWave(FabricModel):
    """Nodes whose NICs' firmware differs change after all others, in a wave that its first failure halts."""

    max_unavailable: Amount | None = None
    """Nodes that may be unavailable at once during this wave. Default: as `rollout.maxUnavailable`, never more."""
    canary: int = Field(default=1, ge=0, le=1000)
    """Nodes that must be sound with the change before the others of this wave begin; 0 for none."""
    paused: bool = False
    """Not now: the nodes of this wave wait, with all that differs there; others go on."""


class RolloutSpec(FabricModel):
    """How a change comes to the nodes of a cluster; used by `trackbed controller` alone."""

    max_unavailable: Amount = "5%"
    """Nodes that may be unavailable at once, for whatever reason: 2, or a share of all as 5% (at least one)."""
    canary: int = Field(default=1, ge=0, le=1000)
    """Nodes that must be sound with a change before all others begin; 0 for none."""
    max_failures: Amount = "1%"
    """Nodes that may fail with a change; with one more no further node begins until somebody looks."""
    firmware: FirmwareWave = FirmwareWave()
    """How a change of NIC firmware comes to the nodes."""
    reboots: int = Field(default=2, ge=0, le=10)
    """Reboots a node may take for one change; one that asks for more has failed. 0: nothing is ever rebooted."""
    drain_minutes: int = Field(default=60, ge=1, le=10_080)
    """How long a node's pods may take to leave (PodDisruptionBudgets may keep them) until it counts as failed."""
    node_minutes: int = Field(default=60, ge=1, le=1440)
    """How long a drained node may take until it counts as failed; with each reboot it gets as long again."""
    keep_slots_hours: int = Field(default=168, ge=0, le=87_600)
    """How long a node that left the Fabric keeps its addresses."""
    paused: bool = False
    """No further node begins; nodes that have begun come to their end."""
