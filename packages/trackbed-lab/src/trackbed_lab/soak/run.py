"""The run of a soak: build the site, let pods and faults go on for some minutes, count at the end, judge."""

import random
import time
from collections import defaultdict
from collections.abc import Callable

import msgspec

from trackbed_lab.soak.census import Census, read_usages
from trackbed_lab.soak.churn import Churn
from trackbed_lab.soak.faults import POD_FAULTS, SITE_FAULTS
from trackbed_lab.soak.injector import Injector
from trackbed_lab.soak.measure import UsageSample, compare_memory
from trackbed_lab.soak.rollouts import Rollouts
from trackbed_lab.soak.site import Site

ADDS_AN_HOUR = 10_000
"""Fewer ADDs than these are a failed soak; of a shorter one a quarter is enough, whatever else the machine does."""
MAX_GROWTH = 0.05
JUDGED_SECONDS = 3600.0
"""Length from which on the growth of memory and all ADDs are judged; in a shorter soak programs grow warm."""
_SAMPLE_SECONDS = 5.0
_STEP_SECONDS = 0.05

ReportProgress = Callable[[float, str], None]
"""Takes the seconds since the first pod, and what there is to say."""


class ProgramUsage(msgspec.Struct, frozen=True):
    """The resources of a program at the end, and the growth of its memory: None where it was killed or too new."""

    name: str
    killed: bool
    pss_mib: float
    private_mib: float
    descriptors: int
    threads: int
    pss_early_mib: float | None
    pss_late_mib: float | None


class SoakResult(msgspec.Struct, frozen=True):
    """The outcome of a soak."""

    seed: int
    seconds: float
    counts: dict[str, int]
    generations: int
    """Generations of the Fabric that were rolled out to every simulated host."""
    retries: int
    """Nodes that failed by a time limit because a clock had jumped, and were retried."""
    programs: list[ProgramUsage]
    findings: list[str]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class SoakRun:
    """One soak over a site that is built."""

    def __init__(self, site: Site, seconds: float, seed: int) -> None:
        self._site, self._seconds, self._seed = site, seconds, seed
        self._churn = Churn(site, seed)
        self._injector = Injector(site, seed)
        self._rollouts = Rollouts(str(site.cluster / "kubeconfig"), random.Random(f"{seed}/rollouts"))  # noqa: S311 - to be repeated
        self._samples: dict[str, list[UsageSample]] = defaultdict(list)
        self._start = self._sampled = 0.0

    def run(self, report: ReportProgress) -> SoakResult:
        """Run the soak to its end and return its result."""
        record = self._site.record
        census = Census(self._site)
        self._rollouts.start()
        self._site.wait_for_rails()
        self._churn.start()
        self._start = time.monotonic()
        while (elapsed := time.monotonic() - self._start) < self._seconds:
            self._step(elapsed)
            report(elapsed, self._describe_progress())
            time.sleep(_STEP_SECONDS)
        self._injector.heal_all()
        report(elapsed, "faults have healed; the last pods end")
        self._churn.stop()
        report(time.monotonic() - self._start, "waiting for the last roll-out")
        findings = self._rollouts.stop()
        report(time.monotonic() - self._start, "counting what is left")
        findings += census.count()
        for finding in [*findings, *self._judge_counts(), *self._judge_memory()]:
            record.report(finding)
        return SoakResult(
            self._seed,
            elapsed,
            dict(sorted(record.counts.items())),
            self._rollouts.generation,
            self._rollouts.retries,
            self._summarize_programs(),
            record.findings,
        )

    def _step(self, elapsed: float) -> None:
        """Inject and heal faults, restart what has died, and sample the programs."""
        try:
            self._injector.step()
        except Exception as error:  # noqa: BLE001 - the soak goes on and reports it
            self._site.record.report(f"a fault could not be injected: {type(error).__name__}: {error}")
        for daemon in self._site.daemons:
            if daemon.has_died:
                self._site.record.report(f"{daemon.name} has ended by itself: {daemon.read_log_end()}")
                daemon.start()
        if elapsed - self._sampled > _SAMPLE_SECONDS:
            self._sampled = elapsed
            self._site.keep_api_server()
            for name, usage in read_usages(self._site.daemons, elapsed).items():
                self._samples[name].append(usage)

    def _describe_progress(self) -> str:
        counts = self._site.record.counts
        faults = sum(number for name, number in counts.items() if name.startswith("fault "))
        return (
            f"{counts['ADD']} ADDs, {faults} faults, {self._rollouts.generation} generations,"
            f" {counts['findings']} findings; {self._injector.latest}"
        )

    def _judge_counts(self) -> list[str]:
        counts, needed = self._site.record.counts, int(ADDS_AN_HOUR * self._seconds / 3600)
        if self._seconds < JUDGED_SECONDS:
            needed //= 4
        ids = [*(fault.id for fault in SITE_FAULTS), *(fault.id for fault in POD_FAULTS)]
        findings = [f"fault {fault} was never injected" for fault in ids if not counts[f"fault {fault}"]]
        if counts["ADD"] < needed:
            findings.append(f"{counts['ADD']} ADDs succeeded, {needed} are needed; the machine is too slow or too busy")
        return findings

    def _judge_memory(self) -> list[str]:
        if self._seconds < JUDGED_SECONDS:
            return []
        findings = []
        for daemon in self._site.daemons:
            medians = None if daemon.expendable else compare_memory(self._samples[daemon.name], self._seconds)
            if medians and medians[1] > medians[0] * (1 + MAX_GROWTH):
                findings.append(f"{daemon.name} grew from {medians[0]:.1f} to {medians[1]:.1f} MiB")
        return findings

    def _summarize_programs(self) -> list[ProgramUsage]:
        programs = []
        for daemon in self._site.daemons:
            samples = self._samples[daemon.name]
            if not samples:
                continue
            last = samples[-1]
            early, late = (None if daemon.expendable else compare_memory(samples, self._seconds)) or (None, None)
            head = (daemon.name, daemon.expendable, last.pss_kib / 1024, last.private_kib / 1024)
            programs.append(ProgramUsage(*head, last.descriptors, last.threads, early, late))
        return programs
