"""What a port counted since its driver was loaded (ethtool -S; the names are mlx5's, en_stats.c of Linux)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_STATISTICS = ("ethtool", "-S", "{netdev}")
_LINE = re.compile(r"^\s+(\w+): (\d+)$", re.MULTILINE)

TOLERATED = 1e-6
"""Share of the packets of the priority: a flap of the link loses some; one in a million already slows DCQCN's flows."""

READS = Wanted(commands=(_STATISTICS,))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port that counts by priority."""
    for port in view.iter_ports():
        said = host.said(*(word.format(netdev=port.netdev) for word in _STATISTICS))
        counted = {name: int(value) for name, value in _LINE.findall(said or "")}
        yield from _storm(view, port, counted)
        yield from _drops(view, port, counted)


def _storm(view: NodeView, port: PortPlan, counted: dict[str, int]) -> Iterator[Finding]:
    storms = counted.get("tx_pause_storm_error_events")
    if storms is not None:
        evidence = f"tx_pause_storm_error_events {storms}"
        yield judge("qos-pause-storm", view.node, port, ok=storms == 0, evidence=evidence)


def _drops(view: NodeView, port: PortPlan, counted: dict[str, int]) -> Iterator[Finding]:
    """Only the planned priority: others may drop, that is what makes them different."""
    qos = view.node.common.qos
    received = counted.get(f"rx_prio{qos.priority}_packets")
    names = [f"rx_prio{qos.priority}_{what}" for what in ("discards", "buf_discard")]
    lost = {name: counted[name] for name in names if name in counted}
    if not qos.pfc or received is None or not lost:
        return
    ok = max(lost.values()) <= received * TOLERATED
    evidence = ", ".join(f"{name} {value}" for name, value in lost.items())
    yield judge("qos-lossless-drops", view.node, port, ok=ok, evidence=f"{evidence} of {received} packets")
