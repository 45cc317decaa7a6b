"""The content of the report as plain values; the template only loops over them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackbed.doctor.finding import BROKEN, Finding
from trackbed.doctor.grouping import FindingGroup, group_findings
from trackbed_lab.report.matrix import Matrix, build_matrix
from trackbed_lab.report.railmap import RailMap, build_rail_map
from trackbed_lab.run_result import AS_PLANNED, NOT_AS_PLANNED, NOT_TESTED, FaultResult, Phase, RunResult


class Tile(NamedTuple):
    """One figure at the top of the page."""

    figure: str
    caption: str
    tone: str
    """One of good, bad, open (not tested), plain."""


class Bar(NamedTuple):
    """One phase: start and length of its bar, in percent of the run."""

    name: str
    seconds: str
    summary: str
    left: float
    width: float
    tone: str


class StepRow(NamedTuple):
    """One step of the chain: the number of checks by verdict."""

    name: str
    passed: int
    broken: int
    unknown: int


class FaultSection(NamedTuple):
    """The injected fault: its place, doctor's first finding, and whether it was healed."""

    id: str
    where: str
    named: FindingGroup | None
    right: bool
    healed: bool
    also: tuple[FindingGroup, ...]
    """Other broken findings with the fault."""


class Page(NamedTuple):
    """The content of the report."""

    title: str
    subtitle: str
    tone: str
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


_VERDICTS = {AS_PLANNED: "As planned", NOT_AS_PLANNED: "Not as planned", NOT_TESTED: "Not fully tested"}
_TONES = {AS_PLANNED: "good", NOT_AS_PLANNED: "bad", NOT_TESTED: "open"}


def build_page(result: RunResult) -> Page:
    """Compute the content of the report of a run."""
    broken = [finding for finding in result.findings if finding.verdict != "pass"]
    return Page(
        title=f"Fabric {result.fabric}",
        subtitle=f"{len(result.nodes)} nodes × {len(result.rails)} rails, {result.scheme}",
        tone=_TONES[result.exit_status],
        verdict=_VERDICTS[result.exit_status],
        tiles=tuple(_iter_tiles(result)),
        bars=tuple(_iter_bars(result.phases)),
        rail_map=build_rail_map(result),
        matrix=build_matrix(result),
        story=_build_fault_section(result.fault) if result.fault else None,
        steps=tuple(_iter_steps(result.findings)),
        findings=group_findings(broken),
        facts=tuple(_iter_facts(result)),
        footer=f"trackbed {result.version}, {result.finished_at}, Linux {result.kernel}, {result.cores} cores",
    )


def _iter_tiles(result: RunResult) -> Iterable[Tile]:
    planned = sum(pair.as_planned for pair in result.pairs)
    untested = sum(not pair.tested for pair in result.pairs)
    tone = "good" if planned == len(result.pairs) else "open" if planned + untested == len(result.pairs) else "bad"
    caption = "rail pairs as planned" + (f", {untested} not tested" if untested else "")
    yield Tile(f"{planned} / {len(result.pairs)}", caption, tone)
    passed = sum(finding.verdict == "pass" for finding in result.findings)
    tone = "good" if passed == len(result.findings) else "bad"
    yield Tile(f"{passed} / {len(result.findings)}", "checks passed", tone)
    if result.fault:
        yield _build_fault_tile(result.fault)
    seconds = sum(phase.seconds for phase in result.phases)
    yield Tile(f"{seconds:.1f} s", "from nothing to nothing", "plain")
    attached = next((phase for phase in result.phases if phase.name == "attach pods"), None)
    if attached:
        yield Tile(f"{attached.seconds:.2f} s", f"{len(result.nodes)} pods get their rails", "plain")


def _is_named_first(fault: FaultResult) -> bool:
    """Return whether doctor's first finding is the injected fault."""
    return fault.named is not None and fault.named.id == fault.id


def _build_fault_tile(fault: FaultResult) -> Tile:
    if not _is_named_first(fault):
        return Tile("1 fault", "missed", "bad")
    return Tile("1 fault", "named and healed", "good") if fault.healed else Tile("1 fault", "not healed", "bad")


def _iter_bars(phases: Sequence[Phase]) -> Iterable[Bar]:
    total = sum(phase.seconds for phase in phases) or 1.0
    start = 0.0
    for phase in phases:
        width = max(100 * phase.seconds / total, 0.3)
        tone = {True: "good", False: "bad", None: "open"}[phase.ok]
        left = round(min(start, 99.7), 2)
        yield Bar(phase.name, f"{phase.seconds:.2f} s", phase.summary, left, round(width, 2), tone)
        start += 100 * phase.seconds / total


def _build_fault_section(fault: FaultResult) -> FaultSection:
    named = group_findings([fault.named])[0] if fault.named else None
    others = [finding for finding in fault.findings if finding.verdict in BROKEN and finding != fault.named]
    port = f"{fault.node}, rail {fault.rail}"
    return FaultSection(fault.id, port, named, _is_named_first(fault), fault.healed, group_findings(others))


def _iter_steps(findings: Iterable[Finding]) -> Iterable[StepRow]:
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        counts.setdefault(finding.step, Counter())[finding.verdict] += 1
    for name, verdicts in counts.items():
        yield StepRow(name, verdicts["pass"], verdicts["fail"] + verdicts["warn"], verdicts["unknown"])


def _iter_facts(result: RunResult) -> Iterable[tuple[str, str]]:
    yield "Scheme", result.scheme
    yield "MTU", f"{result.mtu_bytes} bytes"
    yield "Rails reach each other", result.cross_rail
    yield "Pods get a rail by", result.pod_mode
    for rail in result.rails:
        yield rail.name, rail.range or "no addresses"
