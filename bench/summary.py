"""What the samples of `attach` say: figures of each case, ratios, goals, and where the time goes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.attach import Measured, Sample
from bench.figures import Figure, number, percentile, ratio, table
from bench.trackbed_case import MODES

OPS: Final = ("ADD", "DEL")
WHO: Final = ("floor", "trackbed", "delegates")

PUBLISHED_MS: Final = {
    ("floor macvlan", "ADD"): 1.5,
    ("floor macvlan", "DEL"): 18.5,
    ("floor move", "ADD"): 137.0,
    ("floor move", "DEL"): 147.0,
}
"""p50 of the same floors, one pod after another, from a Go program on 2 cores, Linux 6.18, HZ=250."""


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of one case and operation; `ten` is how long ten pods at once took together (p50)."""

    case: str
    op: str
    pods: int
    p50: float
    p95: float
    max: float
    ten: float | None


def rows(samples: list[Sample]) -> list[Row]:
    """A row for each case and operation that has samples."""
    wanted = ((f"{who} {mode}", op) for mode in MODES for who in WHO for op in OPS)
    return [row for case, op in wanted for row in _row(samples, case, op)]


def _row(samples: list[Sample], case: str, op: str) -> Iterator[Row]:
    mine = [sample for sample in samples if (sample.case, sample.op) == (case, op)]
    alone = [sample.ms for sample in mine if sample.way == "one after another"]
    ten = [sample.ms for sample in mine if sample.whole]
    if alone:
        p50, p95, most = (percentile(alone, fraction) for fraction in (0.5, 0.95, 1))
        yield Row(case, op, len(alone), p50, p95, most, percentile(ten, 0.5) if ten else None)


def goals(found: list[Row]) -> list[Figure]:
    """The goals of attaching, on p50 of pods one after another."""
    p50 = {(row.case, row.op): row.p50 for row in found}
    trackbed, peer = p50.get(("trackbed macvlan", "ADD")), p50.get(("delegates macvlan", "ADD"))
    over_floor = (("macvlan", "DEL", 1.5), ("move", "ADD", 1.3), ("move", "DEL", 1.3))
    return [
        Figure("macvlan ADD", trackbed, 25, "ms"),
        Figure("macvlan ADD, delegates / trackbed", ratio(peer, trackbed), 3, "x", at_least=True),
        *(
            Figure(
                f"{mode} {op}, trackbed / floor",
                ratio(p50.get((f"trackbed {mode}", op)), p50.get((f"floor {mode}", op))),
                goal,
                "x",
            )
            for mode, op, goal in over_floor
        ),
    ]


def text(measured: Measured, overheads: dict[str, float]) -> str:
    """Everything `attach` found, to be read."""
    found = rows(measured.samples)
    parts = [
        "Milliseconds from exec to exit (floor: two batches of netlink), 8 rails a pod",
        _figures(found, measured.missing),
        "Ratios of p50, one after another and (ten at once)",
        _ratios(found),
        "Floor beside its published figure, p50 in ms",
        _floors(found),
        "Where the time goes, p50",
        _where(found, measured, overheads),
    ]
    return "\n\n".join(parts)


def _figures(found: list[Row], missing: dict[str, str]) -> str:
    head = ["case", "", "pods", "p50", "p95", "max", "ten at once", ""]
    body = [
        [row.case, row.op, str(row.pods), *(number(value) for value in (row.p50, row.p95, row.max, row.ten)), ""]
        for row in found
    ]
    absent = [[case, "", *["-"] * 5, f"not measured: {why}"] for case, why in missing.items()]
    return table([head, *body, *absent])


def _ratios(found: list[Row]) -> str:
    p50 = {(row.case, row.op): row for row in found}
    lines = [["", *(f"{mode} {op}" for mode in MODES for op in OPS)]]
    for above, below in (("trackbed", "floor"), ("delegates", "trackbed"), ("delegates", "floor")):
        pairs = [(p50.get((f"{above} {m}", op)), p50.get((f"{below} {m}", op))) for m in MODES for op in OPS]
        lines.append([f"{above} / {below}", *(_both(a, b) for a, b in pairs)])
    return table([[*line, ""] for line in lines])


def _both(above: Row | None, below: Row | None) -> str:
    if above is None or below is None:
        return "-"
    return f"{number(ratio(above.p50, below.p50))} ({number(ratio(above.ten, below.ten))})"


def _floors(found: list[Row]) -> str:
    here = {(row.case, row.op): row.p50 for row in found}
    lines = [
        [
            f"{case} {op}",
            number(here.get((case, op))),
            number(published),
            number(ratio(here.get((case, op)), published)),
            "",
        ]
        for (case, op), published in PUBLISHED_MS.items()
    ]
    return table([["", "here", "published", "here / published", ""], *lines])


def _where(found: list[Row], measured: Measured, overheads: dict[str, float]) -> str:
    lines = [[what, f"{number(ms)} ms", ""] for what, ms in overheads.items()]
    lines += [[f"kernel: {row.case} {row.op}", f"{number(row.p50)} ms", ""] for row in found if "floor" in row.case]
    lines += [
        [f"agent, {mode}: {phase}", f"{number(percentile(values, 0.5) / 1000)} ms", ""]
        for mode, phases in measured.timings.items()
        for phase, values in phases.items()
        if values
    ]
    return table(lines)
