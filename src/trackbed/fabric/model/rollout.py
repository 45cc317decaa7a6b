"""Rollout of a change of the Fabric to the nodes of a running cluster."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from trackbed.fabric.model.model import NUMBER_OR_TEXT, FabricModel, make_error

_AMOUNT = re.compile(r"(?P<share>[0-9]{1,3})%|(?P<number>[0-9]{1,6})")
_WHOLE = 100


def _check_amount(value: object) -> object:
    match = _AMOUNT.fullmatch(str(value))
    if not match or int(match["share"] or 0) > _WHOLE:
        raise make_error("bad-amount", f"{value!r} is no number of nodes; write one as 2, or a share of all as 5%")
    return str(value)


Amount = Annotated[str, BeforeValidator(_check_amount), NUMBER_OR_TEXT]
"""A number of nodes, or a share of all: 2, 5%."""


def count_nodes(amount: str, nodes: int) -> int:
    """Return the number of nodes in an amount; a share is rounded down, but a share above 0 % is at least one node."""
    match = _AMOUNT.fullmatch(amount)
    assert match is not None  # noqa: S101 - an Amount was read by the same pattern
    if match["number"]:
        return int(match["number"])
    share = int(match["share"])
    return max(nodes * share // _WHOLE, 1 if share else 0)


class FirmwareWave(FabricModel):
    """Nodes with a change of NIC firmware follow all others, in a wave that stops at its first failure.

    Example:
        maxUnavailable: 2
        canary: 2
        paused: true
    """

    max_unavailable: Amount | None = None
    """Nodes that may be unavailable at once during this wave. Default: as `rollout.maxUnavailable`, never more."""
    canary: int = Field(default=1, ge=0, le=1000)
    """Nodes that must be healthy with the change before the others of this wave start; 0 for none."""
    paused: bool = False
    """Postponed: the nodes of this wave wait, with all their changes; others continue."""


class RolloutSpec(FabricModel):
    """How a change is rolled out to the nodes of a cluster; used by `trackbed controller` only.

    Example:
        maxUnavailable: 10%
        canary: 2
        maxFailures: 1
        firmware:
          paused: true
        reboots: 1
        drainMinutes: 120
        nodeMinutes: 90
        keepSlotsHours: 24
        paused: false
    """

    max_unavailable: Amount = "5%"
    """Nodes that may be unavailable at once, for any reason: 2, or a share of all as 5% (at least one)."""
    canary: int = Field(default=1, ge=0, le=1000)
    """Nodes that must be healthy with a change before all others start; 0 for none."""
    max_failures: Amount = "1%"
    """Nodes that may fail with a change; after one more failure no further node starts without intervention."""
    firmware: FirmwareWave = FirmwareWave()
    """How a change of NIC firmware is rolled out."""
    reboots: int = Field(default=2, ge=0, le=10)
    """Reboots of a node for one change; a node that needs more has failed. 0: nodes are never rebooted."""
    drain_minutes: int = Field(default=60, ge=1, le=10_080)
    """Time for a node's pods to leave (PodDisruptionBudgets may delay them) before the node counts as failed."""
    node_minutes: int = Field(default=60, ge=1, le=1440)
    """Time for a drained node before it counts as failed; each reboot restarts it."""
    keep_slots_hours: int = Field(default=168, ge=0, le=87_600)
    """How long a node that left the Fabric keeps its addresses."""
    paused: bool = False
    """No further node starts; nodes that have started finish."""
