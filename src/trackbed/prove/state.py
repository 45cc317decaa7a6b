"""What a proof knows while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trackbed.fabric.plan.plan import Plan
from trackbed.prove.culprits import Culprit
from trackbed.prove.facts import PortFacts
from trackbed.prove.findings import PathFinding
from trackbed.prove.results import PathResult, PlannedTest
from trackbed.prove.rounds import Round
from trackbed.prove.rungs.rung import PathEnd
from trackbed.prove.topology import FabricTopology


class RungCulprit(NamedTuple):
    """What a rung blames, and why, where the rung itself knows it."""

    rung: str
    culprit: Culprit
    reason: str = ""
    look: str = ""


class Stop(NamedTuple):
    """Why a test is not run; `node` is the node that the reason is about, where it is one."""

    reason: str
    node: str = ""


@dataclass
class ProofState:
    """Ends, facts and results so far, and what is not tested for which reason."""

    plan: Plan
    topology: FabricTopology
    ends: dict[int, PathEnd]
    mode: str = "screen"
    rounds: list[Round] = field(default_factory=list)
    facts: dict[int, PortFacts] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    stops: dict[PlannedTest, Stop] = field(default_factory=dict)
    """Tests that a lower rung has stopped."""
    port_stops: dict[int, Stop] = field(default_factory=dict)
    """Ports without tests of RDMA."""
    gpu_stops: dict[int, Stop] = field(default_factory=dict)
    """Ports without tests of GPU memory."""
    absent: dict[int, PathFinding] = field(default_factory=dict)
    """Ports without any test, since their pod has no such rail, or did not say which it has."""
    results: list[PathResult] = field(default_factory=list)
    culprits: list[RungCulprit] = field(default_factory=list)
    undecided: list[tuple[str, int]] = field(default_factory=list)
    repeats: int = 0
    in_pods: bool = False
    share: float = 1.0
    """Part of the ports' rate that tests may load."""

    def explain_loss(self, node: str) -> str:
        """Return why a node has no value."""
        return self.failures.get(node, "it was lost in this round, and in its repeat")
