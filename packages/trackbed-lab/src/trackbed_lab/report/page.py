"""Everything the report shows, computed: the template only loops and prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trackbed.doctor.finding import BROKEN
from trackbed.doctor.grouping import FindingGroup, group_findings
from trackbed_lab.report.matrix import Matrix, build_matrix
from trackbed_lab.report.railmap import RailMap, build_rail_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trackbed.doctor.finding import Finding
    from trackbed_lab.run_result import FaultResult, Phase, RunResult


class Tile(NamedTuple):
    """One figure at the top of the page."""

    figure: str
    caption: str
    tone: str
    """good, bad or plain."""


class Bar(NamedTuple):
    """One phase: where its bar begins and how long it is, in percent of the whole run."""

    name: str
    seconds: str
    summary: str
    left: float
    width: float
    tone: str


class StepRow(NamedTuple):
    """One step of the chain: how many checks it passed."""

    name: str
    passed: int
    broken: int
    unknown: int


class FaultSection(NamedTuple):
    """The injected fault, in the order it happened."""

    id: str
    where: str
    named: FindingGroup | None
    right: bool
    healed: bool
    also: tuple[FindingGroup, ...]
    """Everything else that was not sound while the fault was in."""


class Page(NamedTuple):
    """The whole page."""

    title: str
    subtitle: str
    ok: bool
    verdict: str
    tiles: tuple[Tile, ...]
    bars: tuple[Bar, ...]
    rail_map: RailMap
    matrix: Matrix
    story: FaultSection | None
    steps: tuple[StepRow, ...]
    findings: tuple[FindingGroup, ...]
    facts: tuple[tuple[str, str], ...]
    footer: str


def build_page(result: RunResult) -> Page:
    """Compute the page of a run."""
    broken = [f for f in result.findings if f.verdict != "pass"]
    return Page(
        title=f"Fabric {result.fabric}",
        subtitle=f"{len(result.nodes)} nodes × {len(result.rails)} rails, {result.scheme}",
        ok=result.ok,
        verdict="As planned" if result.ok else "Not as planned",
        tiles=tuple(_tiles(result)),
        bars=tuple(_bars(result.phases)),
        rail_map=build_rail_map(result),
        matrix=build_matrix(result),
        story=_story(result.fault) if result.fault else None,
        steps=tuple(_steps(result.findings)),
        findings=group_findings(broken),
        facts=tuple(_facts(result)),
        footer=f"trackbed {result.version}, {result.finished_at}, Linux {result.kernel}, {result.cores} cores",
    )


def _tiles(result: RunResult) -> Iterable[Tile]:
    right = sum(pair.as_planned for pair in result.pairs)
    everything = right == len(result.pairs)
    yield Tile(f"{right} / {len(result.pairs)}", "rail pairs as planned", "good" if everything else "bad")
    passed = sum(f.verdict == "pass" for f in result.findings)
    sound = passed == len(result.findings)
    yield Tile(f"{passed} / {len(result.findings)}", "checks passed", "good" if sound else "bad")
    if result.fault:
        told_right = result.fault.named is not None and result.fault.named.id == result.fault.id
        word = (
            "named and healed" if told_right and result.fault.healed else "missed" if not told_right else "not healed"
        )
        yield Tile("1 fault", word, "good" if told_right and result.fault.healed else "bad")
    seconds = sum(phase.seconds for phase in result.phases)
    yield Tile(f"{seconds:.1f} s", "from nothing to nothing", "plain")
    attached = next((phase for phase in result.phases if phase.name == "attach pods"), None)
    if attached:
        yield Tile(f"{attached.seconds:.2f} s", f"{len(result.nodes)} pods get their rails", "plain")


def _bars(phases: Sequence[Phase]) -> Iterable[Bar]:
    whole = sum(phase.seconds for phase in phases) or 1.0
    at = 0.0
    for phase in phases:
        width = max(100 * phase.seconds / whole, 0.3)
        tone = "good" if phase.ok else "bad"
        yield Bar(phase.name, f"{phase.seconds:.2f} s", phase.summary, round(min(at, 99.7), 2), round(width, 2), tone)
        at += 100 * phase.seconds / whole


def _story(fault: FaultResult) -> FaultSection:
    named = group_findings([fault.named])[0] if fault.named else None
    others = [f for f in fault.findings if f.verdict in BROKEN and f != fault.named]
    right = fault.named is not None and fault.named.id == fault.id
    return FaultSection(
        fault.id, f"{fault.node}, rail {fault.rail}", named, right, fault.healed, group_findings(others)
    )


def _steps(findings: Iterable[Finding]) -> Iterable[StepRow]:
    counted: dict[str, Counter[str]] = {}
    for finding in findings:
        counted.setdefault(finding.step, Counter())[finding.verdict] += 1
    for name, verdicts in counted.items():
        yield StepRow(name, verdicts["pass"], verdicts["fail"] + verdicts["warn"], verdicts["unknown"])


def _facts(result: RunResult) -> Iterable[tuple[str, str]]:
    yield "Scheme", result.scheme
    yield "MTU", f"{result.mtu_bytes} bytes"
    yield "Rails reach each other", result.cross_rail
    yield "Pods get a rail by", result.pod_mode
    for rail in result.rails:
        yield rail.name, rail.range or "no addresses"
