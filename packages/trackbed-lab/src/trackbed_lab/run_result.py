"""The result of a run of the lab, which the report shows and `-o json` prints."""

import msgspec

from trackbed.doctor.finding import Finding

PhaseOutcome = tuple[str, bool | None]
"""The result of a phase's work: a summary, and whether it went as planned (None: a part could not be tested)."""

AS_PLANNED, NOT_AS_PLANNED, NOT_TESTED = 0, 1, 3
"""Exit statuses of a run: all as planned; something is not; a part could not be tested, and the others are."""


class Phase(msgspec.Struct, frozen=True, rename="camel"):
    """One phase of a run: its name, duration in seconds, and outcome (`ok` None: a part could not be tested).

    `figures` are what it measured, by name; most phases measure nothing.
    """

    name: str
    seconds: float
    summary: str
    ok: bool | None = True
    figures: dict[str, float] = msgspec.field(default_factory=dict)


class RunNode(msgspec.Struct, frozen=True, rename="camel"):
    """One node: name, scalable unit, and its pod ("": none)."""

    name: str
    unit: int
    pod: str = ""


class RunRail(msgspec.Struct, frozen=True, rename="camel"):
    """One rail: index, name, range as text ("": none)."""

    rail: int
    name: str
    range: str = ""


class RunPort(msgspec.Struct, frozen=True, rename="camel"):
    """One port: node, rail, leaf, address as text."""

    node: str
    rail: int
    leaf: str
    address: str


class RailPair(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One ordered pair of pod rails, as planned and as measured; node and rail of either end.

    `expected` is whether the plan lets them reach each other. `expected_hops` is the number of routers between them.
    """

    from_node: str
    from_rail: int
    to_node: str
    to_rail: int
    expected: bool
    answered: bool
    source_ok: bool
    """Whether the packet arrived from the sender's rail address, on the receiver's interface of the rail."""
    expected_hops: int
    hops: int | None
    tested: bool = True
    """Whether a packet was sent; if not, nothing is known of the pair."""
    error: str = ""
    """Why a packet could not be sent."""

    @property
    def as_planned(self) -> bool:
        """Whether the measurement agrees with the plan. A pair that was not tested does not."""
        if not self.tested:
            return False
        if not self.expected:
            return not self.answered
        return self.answered and self.source_ok and self.hops == self.expected_hops


class FaultResult(msgspec.Struct, frozen=True, rename="camel"):
    """One injected fault: its place, doctor's first finding, and whether it was healed."""

    id: str
    node: str
    rail: int
    named: Finding | None
    healed: bool
    findings: tuple[Finding, ...] = ()
    """All broken or unknown findings with the fault."""


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """One run of the lab, with all that the report needs."""

    fabric: str
    scheme: str
    version: str
    kernel: str
    cores: int
    finished_at: str
    """ISO 8601, UTC."""
    mtu_bytes: int
    cross_rail: str
    pod_mode: str
    nodes: tuple[RunNode, ...]
    rails: tuple[RunRail, ...]
    ports: tuple[RunPort, ...]
    phases: tuple[Phase, ...]
    pairs: tuple[RailPair, ...]
    fault: FaultResult | None
    findings: tuple[Finding, ...]
    """All findings before the fault was injected, passes included."""
    uplinks: str = ""
    """The links of each leaf to the spines of its rail, as text ("": the Fabric does not describe them)."""

    @property
    def exit_status(self) -> int:
        """How the run ended: AS_PLANNED, NOT_AS_PLANNED or NOT_TESTED."""
        diagnosed = self.fault is None or (self.fault.named is not None and self.fault.healed)
        outcomes = {phase.ok for phase in self.phases} | {_judge_pair(pair) for pair in self.pairs}
        if not diagnosed or False in outcomes:
            return NOT_AS_PLANNED
        return NOT_TESTED if None in outcomes else AS_PLANNED


def _judge_pair(pair: RailPair) -> bool | None:
    return pair.as_planned if pair.tested else None
