"""A port's QoS counters since its driver was loaded (ethtool -S; names of mlx5, en_stats.c of Linux)."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_STATISTICS = ("ethtool", "-S", "{netdev}")
_LINE = re.compile(r"^\s+(\w+): (\d+)$", re.MULTILINE)

TOLERATED = 1e-6
"""Tolerated share of dropped packets: a link flap drops a few, and one in a million already slows DCQCN's flows."""

READS = Wanted(commands=(_STATISTICS,))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port that has counters for each priority."""
    for port in view.iter_ports():
        output = host.get_output(*(argument.format(netdev=port.netdev) for argument in _STATISTICS))
        counters = {name: int(value) for name, value in _LINE.findall(output or "")}
        yield from check_pause_storms(view, port, counters)
        yield from check_drops(view, port, counters)


def check_pause_storms(view: NodeView, port: PortPlan, counters: dict[str, int]) -> Iterator[Finding]:
    """Check that the port has sent no storm of pause frames."""
    storms = counters.get("tx_pause_storm_error_events")
    if storms is not None:
        evidence = f"tx_pause_storm_error_events {storms}"
        yield judge("qos-pause-storm", view.node, port, ok=storms == 0, evidence=evidence)


def check_drops(view: NodeView, port: PortPlan, counters: dict[str, int]) -> Iterator[Finding]:
    """Check the drops of the planned priority; the other priorities are lossy."""
    qos = view.node.common.qos
    received = counters.get(f"rx_prio{qos.priority}_packets")
    names = [f"rx_prio{qos.priority}_{suffix}" for suffix in ("discards", "buf_discard")]
    drops = {name: counters[name] for name in names if name in counters}
    if not qos.pfc or received is None or not drops:
        return
    ok = max(drops.values()) <= received * TOLERATED
    evidence = ", ".join(f"{name} {value}" for name, value in drops.items())
    yield judge("qos-lossless-drops", view.node, port, ok=ok, evidence=f"{evidence} of {received} packets")
