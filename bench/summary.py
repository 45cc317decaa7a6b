"""What the samples of `attach` say: figures of each case, ratios, what was asked of others, where the time goes."""

from typing import Final

from bench.figures import number, percentile, ratio, table
from bench.goals import OPS, beyond_eth0
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
    """Everything `attach` found, to be read."""
    found = rows(measured.samples)
    parts = [
        "Milliseconds from exec to exit (floor: two batches of netlink), 8 rails a pod; pod: with eth0 by ptp",
        _figures(found, measured.missing),
        "Ratios of p50, one after another and (ten at once)",
        _ratios(found),
        "Whole pods beyond eth0 alone, p50 in ms",
        _beyond(found),
        "Requests of a pod, ADD and DEL together",
        _asked(measured),
        "What the kernel forces on moves: one RCU barrier a device, whoever asks, p50",
        _forced(found),
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
    for above, below in _PAIRS:
        pairs = [(p50.get((f"{above} {m}", op)), p50.get((f"{below} {m}", op))) for m in MODES for op in OPS]
        lines.append([f"{above} / {below}", *(_both(a, b) for a, b in pairs)])
    return table([[*line, ""] for line in lines])


def _both(above: Row | None, below: Row | None) -> str:
    if above is None or below is None:
        return "-"
    return f"{number(ratio(above.p50, below.p50))} ({number(ratio(above.ten, below.ten))})"


def _beyond(found: list[Row]) -> str:
    known = {(row.case, row.op): row for row in found}
    head = ["", *(f"{mode} {op}" for mode in MODES for op in OPS), ""]
    cases = {who: [beyond_eth0(known, f"pod {who} {mode}", op) for mode in MODES for op in OPS] for who in _PODS}
    lines = [[who, *map(number, values), ""] for who, values in cases.items()]
    times = [ratio(above, below) for above, below in zip(cases["multus"], cases["trackbed"], strict=True)]
    return table([head, *lines, ["multus / trackbed", *map(number, times), ""]])


def _asked(measured: Measured) -> str:
    kinds = ("kubelet calls", "API requests", "API writes")
    lines = [[case, *(number(found.get(kind)) for kind in kinds), ""] for case, found in measured.counts.items()]
    sockets = f"TCP sockets of the agents: {measured.tcp_sockets}"
    return f"{table([['', *kinds, ''], *lines])}\n{sockets}"


def _forced(found: list[Row]) -> str:
    known = {(row.case, row.op): row.p50 for row in found}
    lines = []
    for op in OPS:
        one, whole = known.get(("one bare move", op)), known.get(("trackbed move", op))
        share = ratio(one * RAILS if one else None, whole)
        lines.append([op, number(one), number(whole), number(share), ""])
    return table([["", "one bare move, ms", "trackbed, ms", f"{RAILS} bare moves / trackbed", ""], *lines])


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
    lines += [[f"kernel: {row.case} {row.op}", f"{number(row.p50)} ms", ""] for row in found if row.case in _KERNEL]
    lines += [
        [f"agent, {case}: {phase}", f"{number(percentile(values, 0.5) / 1000)} ms", ""]
        for case, phases in measured.timings.items()
        for phase, values in phases.items()
        if values
    ]
    return table(lines)
