"""What one run of the lab found: the value that the report shows, and that `-o json` prints."""

from __future__ import annotations

import msgspec

from trackbed.doctor.finding import Finding


class Phase(msgspec.Struct, frozen=True, rename="camel"):
    """One phase of a run: what was done, how long it took in seconds, and its outcome in a few words."""

    name: str
    seconds: float
    summary: str
    ok: bool = True


class RunNode(msgspec.Struct, frozen=True, rename="camel"):
    """One node: its name, scalable unit, and the pod on it ("" for none)."""

    name: str
    unit: int
    pod: str = ""


class RunRail(msgspec.Struct, frozen=True, rename="camel"):
    """One rail: index, name, range as text ("" for none)."""

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

    `expected` is whether the plan lets them reach each other; `expected_hops` the routers between them by topology.
    """

    from_node: str
    from_rail: int
    to_node: str
    to_rail: int
    expected: bool
    answered: bool
    source_ok: bool
    """The receiver saw the sender's own rail address, on its own rail interface."""
    expected_hops: int
    hops: int | None

    @property
    def as_planned(self) -> bool:
        """Whether what was measured is what the plan says."""
        if not self.expected:
            return not self.answered
        return self.answered and self.source_ok and self.hops == self.expected_hops


class FaultResult(msgspec.Struct, frozen=True, rename="camel"):
    """One injected fault: what was broken, what doctor named, whether it was sound again afterwards."""

    id: str
    node: str
    rail: int
    named: Finding | None
    healed: bool
    findings: tuple[Finding, ...] = ()
    """All broken or unknown findings while the fault was in."""


class RunResult(msgspec.Struct, frozen=True, rename="camel"):
    """One run of the lab, complete in itself."""

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
    """Findings of the sound fabric: all of them, passes included."""

    @property
    def ok(self) -> bool:
        """Whether everything went as planned."""
        told = self.fault is None or (self.fault.named is not None and self.fault.healed)
        return told and all(phase.ok for phase in self.phases) and all(pair.as_planned for pair in self.pairs)
