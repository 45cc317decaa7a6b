"""A proof by rates in a lab: all ports are capped at the Fabric's rate, some at less, and the proof has to name these.

The ladder is ping and tcp_bw, since network namespaces have no RDMA. The workers are those of real hosts; nsenter
starts them in the nodes' namespaces.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.lab import LabError
from trackbed_lab.run import LabRun, configure_hosts, set_up_lab
from trackbed_lab.tbf import build_set_rate

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.report import ProofReport
    from trackbed_lab.lab import Lab
    from trackbed_lab.run_result import PhaseOutcome

RUNGS = ("ping", "tcp_bw")
SLOW_SHARES = (0.4, 0.6, 0.8)
"""Rates of slow ports, as shares of the Fabric's."""
_BYTES_PER_GBIT = 1e9 / 8

Port = tuple[str, int]
"""Node and rail."""
Prove = Callable[["Plan", tuple[str, ...]], "ProofReport"]
"""Runs a proof of a plan, whose workers a launcher starts, and returns its report."""


class CulpritComparison(NamedTuple):
    """The ports that are slow, and what the proof says of them."""

    named: tuple[Port, ...]
    missed: tuple[Port, ...]
    blamed_falsely: tuple[str, ...]
    """Where culprits are that are no slow port."""


def run_rates(run: LabRun, fabric: bytes, slow_count: int, seed: int, prove: Prove) -> bool:
    """Run all phases; return whether each slow port was named, and nothing else.

    Raises LabError, HostError, NetlinkError, OSError: the lab cannot be built, or its Fabric states no rate.
    """
    lab = run.lab
    run.run_phase("set up", lambda: set_up_lab(lab, fabric))
    run.run_phase("configure hosts", lambda: configure_hosts(lab))
    slow = choose_slow_ports(lab.plan, slow_count, seed)
    run.run_phase("cap rates", lambda: _cap_rates(lab, slow))
    run.run_phase("prove", lambda: _prove_rates(lab, slow, prove))
    return all(phase.ok for phase in run.phases)


def _cap_rates(lab: Lab, slow: Mapping[Port, float]) -> PhaseOutcome:
    gbps = lab.plan.rate_gbps
    if gbps is None:
        raise LabError(
            "the Fabric states no rate (spec.rate), and ports of a lab negotiate none; state some 0.002 Gb/s"
        )
    count = cap_ports(lab, gbps, slow)
    shares = ", ".join(f"{_name_port(port)} at {share:.0%}" for port, share in slow.items())
    return f"{count} ports at {gbps:g} Gb/s; {shares or 'none is slower'}", True


def _prove_rates(lab: Lab, slow: Mapping[Port, float], prove: Prove) -> PhaseOutcome:
    launcher = ("nsenter", f"--net={lab.locate_netns('%h')}")
    result = prove(lab.plan, launcher)
    comparison = compare(result, slow)
    median = next((rung.median for rung in result.rungs if rung.rung == "tcp_bw" and rung.median is not None), None)
    if median is None:
        raise LabError(f"no rate was measured: {result.summary}; a Fabric of two nodes or more has pairs to measure")
    texts = [f"{len(comparison.named)} of {len(slow)} slow ports named, {median:.3g} Gb/s in the median"]
    if comparison.missed:
        texts.append(f"missed: {', '.join(map(_name_port, comparison.missed))}")
    if comparison.blamed_falsely:
        texts.append(f"blamed, and sound: {', '.join(comparison.blamed_falsely)}")
    return "; ".join([*texts, result.summary]), not comparison.missed and not comparison.blamed_falsely


def _name_port(port: Port) -> str:
    return f"rail {port[1]} of {port[0]}"


def choose_slow_ports(plan: Plan, count: int, seed: int) -> dict[Port, float]:
    """Return slow ports of different nodes, and their shares of the rate. Raises LabError if there are not so many."""
    if count > len(plan.nodes):
        raise LabError(f"{count} slow ports of different nodes need as many nodes; the Fabric has {len(plan.nodes)}")
    generator = random.Random(seed)  # noqa: S311 - chosen, not secret
    nodes = generator.sample(plan.nodes, count)
    return {
        (node.name, generator.choice(node.ports).rail): SLOW_SHARES[number % len(SLOW_SHARES)]
        for number, node in enumerate(nodes)
    }


def cap_ports(lab: Lab, gbps: float, shares: Mapping[Port, float]) -> int:
    """Cap each port at both ends of its cable; return how many ports there are. Raises NetlinkError."""
    ends: dict[str, dict[str, float]] = {}
    for node in lab.plan.nodes:
        for port in node.ports:
            rate = gbps * shares.get((node.name, port.rail), 1.0)
            leaf, interface = lab.find_leaf_end(node.name, port.rail)
            ends.setdefault(node.name, {})[port.netdev] = rate
            ends.setdefault(leaf, {})[interface] = rate
    for name, rates in ends.items():
        with Socket(netns=lab.locate_netns(name)) as sock:
            indexes = {link.name: link.index for link in list_links(sock)}
            sock.send([build_set_rate(indexes[link], int(rate * _BYTES_PER_GBIT)) for link, rate in rates.items()])
    return sum(len(node.ports) for node in lab.plan.nodes)


def compare(report: ProofReport, slow: Collection[Port]) -> CulpritComparison:
    """Compare the culprits of a proof with the ports that are slow."""
    by_port = {(culprit.nodes[0], culprit.rail): culprit for culprit in report.culprits if culprit.kind == "port"}
    return CulpritComparison(
        tuple(port for port in slow if port in by_port),
        tuple(port for port in slow if port not in by_port),
        tuple(
            culprit.where
            for culprit in report.culprits
            if culprit.kind != "port" or (culprit.nodes[0], culprit.rail) not in slow
        ),
    )
