"""The goals of `attach`, judged by the p50 of pods in sequence and by the makespan of ten pods at once."""

from collections.abc import Iterator
from typing import Final

from bench.figures import Figure, ratio
from bench.memory import PODS
from bench.rows import Row
from bench.trackbed_case import MODES
from bench.turns import Measured

Rows = dict[tuple[str, str], Row]

OPS: Final = ("ADD", "DEL")
_OVER_FLOOR: Final = 1.3
_OWN: Final = ("pod trackbed macvlan", "pod trackbed move", "pod without rails")


def goals(case_rows: list[Row], measured: Measured) -> list[Figure]:
    """Return all figures of attaching with their goals."""
    rows = {(row.case, row.op): row for row in case_rows}
    return [
        *_macvlan(rows),
        *_compare_with_floor(rows),
        *_compare_makespans(rows),
        *_count_requests(measured),
        *_agent(rows, measured),
    ]


def subtract_eth0(rows: Rows, case: str, op: str) -> float | None:
    """Return the p50 of a whole pod minus that of a pod with eth0 alone; None if either was not measured."""
    pod, eth0 = p50(rows, case, op), p50(rows, "pod eth0 alone", op)
    return None if pod is None or eth0 is None else pod - eth0


def p50(rows: Rows, case: str, op: str) -> float | None:
    """Return the p50 of a case; None if it was not measured."""
    return rows[case, op].p50 if (case, op) in rows else None


def _macvlan(rows: Rows) -> Iterator[Figure]:
    rails, pod, peer = "trackbed macvlan", "pod trackbed macvlan", "pod multus macvlan"
    ours, theirs = (subtract_eth0(rows, case, "ADD") for case in (pod, peer))
    yield Figure("macvlan ADD, rails alone", p50(rows, rails, "ADD"), 25, "ms")
    yield Figure("macvlan ADD, pod beyond eth0", ours, 25, "ms", optional=True)
    times = (
        ("delegates / trackbed", ratio(p50(rows, "delegates macvlan", "ADD"), p50(rows, rails, "ADD")), 3),
        ("multus pod / trackbed pod", ratio(p50(rows, peer, "ADD"), p50(rows, pod, "ADD")), 5),
        ("the same beyond eth0", ratio(theirs, ours), 5),
    )
    for comparison, value, goal in times:
        yield Figure(f"macvlan ADD, {comparison}", value, goal, "x", at_least=True, optional=True)


def _compare_with_floor(rows: Rows) -> Iterator[Figure]:
    for mode, op, goal in (("macvlan", "DEL", 1.5), ("move", "ADD", _OVER_FLOOR), ("move", "DEL", _OVER_FLOOR)):
        kernel = p50(rows, f"floor {mode}", op)
        yield Figure(f"{mode} {op}, trackbed / floor", ratio(p50(rows, f"trackbed {mode}", op), kernel), goal, "x")
        if mode == "move":
            beyond = ratio(subtract_eth0(rows, f"pod trackbed {mode}", op), kernel)
            yield Figure(f"{mode} {op}, pod beyond eth0 / floor", beyond, goal, "x", optional=True)


def _compare_makespans(rows: Rows) -> Iterator[Figure]:
    pairs = [(mode, op, f"floor {mode}") for mode in reversed(MODES) for op in OPS]
    for mode, op, below in [*pairs, *(("macvlan", op, "floor+exec macvlan") for op in OPS)]:
        makespans = [rows[case, op].ten if (case, op) in rows else None for case in (f"trackbed {mode}", below)]
        name = f"ten at once, {mode} {op}, trackbed / {below.removesuffix(f' {mode}')}"
        yield Figure(name, ratio(*makespans), _OVER_FLOOR, "x")


def _count_requests(measured: Measured) -> Iterator[Figure]:
    for counter, goal, optional in (("kubelet calls", 1, False), ("API requests", 0, True)):
        each = [measured.counts[case][counter] for case in _OWN if counter in measured.counts.get(case, {})]
        why = f"no API server runs; the agents have {measured.tcp_sockets} TCP sockets" if optional and not each else ""
        yield Figure(
            f"{counter} of a pod, most of all cases", max(each, default=None), goal, "", optional=optional, why=why
        )


def _agent(rows: Rows, measured: Measured) -> Iterator[Figure]:
    with_pods = f"with {PODS} pods"
    others = ", ".join(f"{moment} {mb:.0f}" for moment, mb in measured.memory_mb.items() if moment != with_pods)
    yield Figure(f"agent's memory {with_pods} of 8 rails", measured.memory_mb.get(with_pods), 80, "MB", why=others)
    yield Figure("ADD of a pod without rails", p50(rows, "pod without rails", "ADD"), 20, "ms")
