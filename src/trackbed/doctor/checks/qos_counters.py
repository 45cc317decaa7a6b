"""QoS counters of a port since its driver was loaded (ethtool -S; counter names from mlx5's en_stats.c)."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_STATISTICS = ("ethtool", "-S", "{netdev}")
_LINE = re.compile(r"^[ \t]+(\w+): (\d{1,20})$", re.MULTILINE)

ACCEPTED_DROP_SHARE = 1e-6
"""Accepted share of dropped packets, because a link flap drops some; a larger share slows down DCQCN flows."""

READS = Wanted(commands=(_STATISTICS,))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the QoS counters of each port that has them."""
    for port in view.iter_ports():
        output = host.get_output(*(argument.format(netdev=port.netdev) for argument in _STATISTICS))
        counters = {name: int(value) for name, value in _LINE.findall(output or "")}
        yield from check_pause_storms(view, port, counters)
        yield from check_drops(view, port, counters)


def check_pause_storms(view: NodeView, port: PortPlan, counters: dict[str, int]) -> Iterator[Finding]:
    """Check that the driver has counted no storms of pause frames sent by the port."""
    storms = counters.get("tx_pause_storm_error_events")
    if storms is not None:
        evidence = f"tx_pause_storm_error_events {storms}"
        yield build_finding("qos-pause-storm", view.node, port, ok=storms == 0, evidence=evidence)


def check_drops(view: NodeView, port: PortPlan, counters: dict[str, int]) -> Iterator[Finding]:
    """Check that the planned priority has no more than the accepted share of drops; other priorities are lossy."""
    qos = view.node.common.qos
    received = counters.get(f"rx_prio{qos.priority}_packets")
    names = [f"rx_prio{qos.priority}_{suffix}" for suffix in ("discards", "buf_discard")]
    drops = {name: counters[name] for name in names if name in counters}
    if not qos.pfc or received is None or not drops:
        return
    ok = max(drops.values()) <= received * ACCEPTED_DROP_SHARE
    evidence = ", ".join(f"{name} {value}" for name, value in drops.items())
    yield build_finding("qos-lossless-drops", view.node, port, ok=ok, evidence=f"{evidence} of {received} packets")
