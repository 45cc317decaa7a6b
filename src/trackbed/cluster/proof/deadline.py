"""How long the sheets of a proof in pods take to begin, and when kubelet ends pods that still run."""

from __future__ import annotations

import math
from typing import Final

from trackbed.fleet.sheet_run import LATE_SECONDS, MOST_RESTARTS
from trackbed.prove.budget import LadderBudget
from trackbed.prove.ports import FACTS_SECONDS

BEGIN_SECONDS: Final = 180
"""Time in which a pod must begin: its image is pulled, its rails are attached."""
_FIRST_SECONDS: Final = 600
"""Time until the first sheet: pods start."""
_WRITES_PER_SECOND: Final = 100
"""Mailboxes that are surely written in a second (an assumption, not a measurement)."""
_READINGS: Final = 4
"""Sheets that read: the ends of pods, their GPUs, and the files of ports first and last."""


def compute_start_seconds(nodes: int) -> float:
    """Return the seconds from writing a sheet to its first round."""
    return 2.0 + nodes / _WRITES_PER_SECOND


def compute_deadline(budget: LadderBudget) -> int:
    """Return the seconds after which kubelet ends a pod: no proof takes that long that still goes on.

    Each sheet may end late, and all its rounds may be repeated. A pod is made anew MOST_RESTARTS times at most, and may
    end, and begin anew, at the last moment each time.
    """
    seconds = budget.most_seconds + _READINGS * (compute_start_seconds(budget.nodes) + FACTS_SECONDS)
    late = (budget.most_sheets + _READINGS) * LATE_SECONDS
    return math.ceil(2 * (seconds + late)) + _FIRST_SECONDS + MOST_RESTARTS * 2 * BEGIN_SECONDS
