"""The report of `attach`: figures of each case, ratios, requests to other programs, shares of the time."""

from typing import Final

from bench.figures import number, percentile, ratio, table
from bench.goals import OPS, subtract_eth0
from bench.node import RAILS
from bench.rows import Row, rows
from bench.trackbed_case import MODES
from bench.turns import Measured

_PAIRS: Final = (
    ("trackbed", "floor"),
    ("trackbed", "floor+exec"),
    ("delegates", "trackbed"),
    ("delegates", "floor"),
    ("pod multus", "pod trackbed"),
)

_KERNEL: Final = ("floor macvlan", "floor move", "one bare move")
_PODS: Final = ("trackbed", "multus")

PUBLISHED_MS: Final = {
    ("floor macvlan", "ADD"): 1.5,
    ("floor macvlan", "DEL"): 18.5,
    ("floor move", "ADD"): 137.0,
    ("floor move", "DEL"): 147.0,
}
"""p50 of the same floors, one pod after another, from a Go program on 2 cores, Linux 6.18, HZ=250."""


def text(measured: Measured, overheads: dict[str, float]) -> str:
    """Render the whole report."""
    case_rows = rows(measured.samples)
    parts = [
        "Milliseconds from exec to exit (floor: two batches of netlink), 8 rails a pod; pod: with eth0 by ptp",
        _figures(case_rows, measured.missing),
        "Ratios of p50, one after another and (ten at once)",
        _ratios(case_rows),
        "Whole pods beyond eth0 alone, p50 in ms",
        _render_beyond_eth0(case_rows),
        "Requests of a pod, ADD and DEL together",
        _render_requests(measured),
        "What the kernel forces on moves: one RCU barrier a device, whoever asks, p50",
        _render_bare_moves(case_rows),
        "Floor beside its published figure, p50 in ms",
        _floors(case_rows),
        "Where the time goes, p50",
        _render_time_shares(case_rows, measured, overheads),
    ]
    return "\n\n".join(parts)


def _figures(case_rows: list[Row], missing: dict[str, str]) -> str:
    head = ["case", "", "pods", "p50", "p95", "max", "ten at once", ""]
    body = [
        [row.case, row.op, str(row.pods), *(number(value) for value in (row.p50, row.p95, row.max, row.ten)), ""]
        for row in case_rows
    ]
    absent = [[case, "", *["-"] * 5, f"not measured: {why}"] for case, why in missing.items()]
    return table([head, *body, *absent])


def _ratios(case_rows: list[Row]) -> str:
    p50 = {(row.case, row.op): row for row in case_rows}
    lines = [["", *(f"{mode} {op}" for mode in MODES for op in OPS)]]
    for above, below in _PAIRS:
        pairs = [(p50.get((f"{above} {m}", op)), p50.get((f"{below} {m}", op))) for m in MODES for op in OPS]
        lines.append([f"{above} / {below}", *(_render_pair(a, b) for a, b in pairs)])
    return table([[*line, ""] for line in lines])


def _render_pair(above: Row | None, below: Row | None) -> str:
    if above is None or below is None:
        return "-"
    return f"{number(ratio(above.p50, below.p50))} ({number(ratio(above.ten, below.ten))})"


def _render_beyond_eth0(case_rows: list[Row]) -> str:
    known = {(row.case, row.op): row for row in case_rows}
    head = ["", *(f"{mode} {op}" for mode in MODES for op in OPS), ""]
    cases = {who: [subtract_eth0(known, f"pod {who} {mode}", op) for mode in MODES for op in OPS] for who in _PODS}
    lines = [[who, *map(number, values), ""] for who, values in cases.items()]
    times = [ratio(above, below) for above, below in zip(cases["multus"], cases["trackbed"], strict=True)]
    return table([head, *lines, ["multus / trackbed", *map(number, times), ""]])


def _render_requests(measured: Measured) -> str:
    kinds = ("kubelet calls", "API requests", "API writes")
    lines = [[case, *(number(counts.get(kind)) for kind in kinds), ""] for case, counts in measured.counts.items()]
    sockets = f"TCP sockets of the agents: {measured.tcp_sockets}"
    return f"{table([['', *kinds, ''], *lines])}\n{sockets}"


def _render_bare_moves(case_rows: list[Row]) -> str:
    known = {(row.case, row.op): row.p50 for row in case_rows}
    lines = []
    for op in OPS:
        bare, whole = known.get(("one bare move", op)), known.get(("trackbed move", op))
        share = ratio(bare * RAILS if bare else None, whole)
        lines.append([op, number(bare), number(whole), number(share), ""])
    return table([["", "one bare move, ms", "trackbed, ms", f"{RAILS} bare moves / trackbed", ""], *lines])


def _floors(case_rows: list[Row]) -> str:
    here = {(row.case, row.op): row.p50 for row in case_rows}
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


def _render_time_shares(case_rows: list[Row], measured: Measured, overheads: dict[str, float]) -> str:
    lines = [[program, f"{number(ms)} ms", ""] for program, ms in overheads.items()]
    lines += [[f"kernel: {row.case} {row.op}", f"{number(row.p50)} ms", ""] for row in case_rows if row.case in _KERNEL]
    lines += [
        [f"agent, {case}: {phase}", f"{number(percentile(values, 0.5) / 1000)} ms", ""]
        for case, phases in measured.timings.items()
        for phase, values in phases.items()
        if values
    ]
    return table(lines)
