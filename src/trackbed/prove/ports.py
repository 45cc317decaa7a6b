"""The ports before any traffic: their ends in pods, what their files say, and their GIDs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.prove import gpus, pod_ends
from trackbed.prove.facts import PortFacts, build_step, parse_facts
from trackbed.prove.findings import PathFinding
from trackbed.prove.port_groups import FaultyPorts, group_ports
from trackbed.prove.results import PathResult, PlannedTest
from trackbed.prove.rungs import GID
from trackbed.prove.rungs.rung import Rung, Step
from trackbed.prove.sheets import Answers, Sheet, SheetRound
from trackbed.prove.state import ProofState, RungCulprit, Stop

FACTS_SECONDS = 1.0
"""Length of the round in which nodes read their files."""
_RATE_LOOK = "compare `ethtool` of these ports on {} with another node; reseat or swap the cable or transceiver"
_GID_LOOK = "run `trackbed doctor --nodes {}`: its address, or its RDMA device, is not as planned"


def find_pod_ends(run: ProofState) -> Generator[Sheet, Answers, None]:
    """Replace the planned ends by those that pods have."""
    nodes, rails = run.topology.nodes, run.topology.rails
    steps = {node: [(2 * index, pod_ends.STEP)] for index, node in enumerate(nodes)}
    answers = yield Sheet("pods", (SheetRound(FACTS_SECONDS, steps, {}),))
    run.failures = answers.failures
    for index, node in enumerate(nodes):
        ends = pod_ends.find_ends(run.plan.common, node, answers.outputs.get(2 * index))
        for port in run.ends.keys() & set(range(index * rails, (index + 1) * rails)):
            rail = run.ends[port].rail
            if rail in ends:
                run.ends[port] = ends[rail]
            elif 2 * index in answers.outputs:
                run.absent[port] = PathFinding(
                    "fail", "rdma", None, pod_ends.explain_absence(run.plan.common.rails[rail])
                )
            else:
                run.absent[port] = PathFinding("not-tested", "rdma", None, run.explain_loss(node))
    # One of both may have made the address up to have the other blamed, and tainted.
    for port, reason in pod_ends.find_doubles({port: end for port, end in run.ends.items() if port not in run.absent}):
        run.absent[port] = PathFinding("unknown", "rdma", None, reason)


def read_facts(run: ProofState) -> Generator[Sheet, Answers, dict[int, PortFacts]]:
    """Read the files of every port whose node answers."""
    steps: dict[str, list[tuple[int, Step]]] = {}
    for port, end in run.ends.items():
        if end.node not in run.failures and port not in run.absent:
            steps.setdefault(end.node, []).append((2 * port, build_step(end)))
    answers = yield Sheet("files", (SheetRound(FACTS_SECONDS, steps, {}),))
    run.failures = answers.failures
    link_type, planned = run.plan.common.link_type, run.plan.rate_gbps
    facts = {
        port: parse_facts(answers.outputs[2 * port], end, link_type)
        for port, end in run.ends.items()
        if 2 * port in answers.outputs
    }
    return {port: read._replace(rate_gbps=planned or read.rate_gbps) for port, read in facts.items()}


def find_gpus(run: ProofState) -> Generator[Sheet, Answers, None]:
    """Give each end the options of the first GPU that the plan gives its port; a port without one has a reason."""
    nodes, rails = run.topology.nodes, run.topology.rails
    steps = {node: [(2 * index, gpus.STEP)] for index, node in enumerate(nodes) if node not in run.failures}
    answers = yield Sheet("GPUs", (SheetRound(FACTS_SECONDS, steps, {}),))
    run.failures = answers.failures
    options = {step // 2: gpus.list_gpus(output) for step, output in answers.outputs.items()}
    numbers = {(node.name, port.rail): min(port.gpus, default=None) for node in run.plan.nodes for port in node.ports}
    for port, end in run.ends.items():
        number, present = numbers[end.node, end.rail], options.get(port // rails)
        if present is None:
            run.gpu_stops[port] = Stop(run.explain_loss(end.node), end.node)
        elif number is None:
            run.gpu_stops[port] = Stop(f"the Fabric gives rail {end.rail} no GPU", end.node)
        elif number >= len(present):
            run.gpu_stops[port] = Stop(f"it has no GPU {number}: its drivers show {len(present)}", end.node)
        else:
            run.ends[port] = end._replace(gpu_options=present[number])


def judge_gids(run: ProofState) -> None:
    """Judge the GID of each port; a port without one has no test of RDMA."""
    reasons: dict[int, str] = {}
    read: list[int] = []
    for port, end in run.ends.items():
        facts = run.facts.get(port)
        finding = _judge_gid(run, port, facts)
        if facts and finding.verdict == "pass" and run.plan.common.link_type == "ethernet":
            run.ends[port] = end._replace(gid_index=facts.gid.gid_index)
        read += [port] if finding.verdict in {"pass", "fail"} else []
        reasons |= {port: finding.reason} if finding.verdict == "fail" else {}
        if finding.verdict != "pass":
            run.port_stops[port] = Stop(finding.reason, end.node)
        run.results.append(PathResult(GID, PlannedTest(0, "port", port, port), finding, node=end.node))
    look = pod_ends.LOOK if run.in_pods else _GID_LOOK
    # A pod without an address has another fault than ports without a GID of theirs.
    for faulty in (reasons.keys() - run.absent, reasons.keys() & run.absent):
        others = reasons.keys() - faulty
        groups = group_ports(run.topology, dict.fromkeys(faulty, 1.0), [port for port in read if port not in others])
        run.culprits += _blame_ports(run, GID, groups, reasons, look)


def judge_negotiated_rates(run: ProofState, rung: Rung) -> None:
    """Blame the ports that negotiated less than most like them on their rail, unless the Fabric states the rate.

    Their results are on the lowest rung that measures a rate, where they pass: at the rate that they have.
    """
    if run.plan.rate_gbps:
        return
    losses, reasons = find_low_rates(run.facts, run.topology.rails)
    for port, reason in reasons.items():
        finding = PathFinding("fail", rung.transport, None, reason)
        test = PlannedTest(0, "port", port, port)
        run.results.append(PathResult(rung.name, test, finding, node=run.ends[port].node))
    read = [port for port, facts in run.facts.items() if facts.rate_gbps]
    run.culprits += _blame_ports(run, rung.name, group_ports(run.topology, losses, read), reasons, _RATE_LOOK)


def find_low_rates(facts: Mapping[int, PortFacts], rails: int) -> tuple[dict[int, float], dict[int, str]]:
    """Return, by port, the part of the rate that most ports of its rail and NIC have and it lacks, and the reason."""
    alike: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for port, read in facts.items():
        if read.rate_gbps:
            alike[port % rails, read.firmware.partition(" ")[0] or read.server].append(port)
    losses, reasons = {}, {}
    for (rail, _), ports in alike.items():
        rates = {port: facts[port].rate_gbps or 0.0 for port in ports}
        [(usual, count)] = Counter(rates.values()).most_common(1)
        for port, rate in rates.items() if 2 * count > len(ports) else ():
            if rate < usual:
                losses[port] = 1 - rate / usual
                reasons[port] = f"negotiated {rate:g} Gb/s, {count} others of rail {rail} have {usual:g} Gb/s"
    return losses, reasons


def _blame_ports(
    run: ProofState, rung: str, groups: Iterable[FaultyPorts], reasons: Mapping[int, str], look: str
) -> Iterator[RungCulprit]:
    """Yield the culprit of each group, with one line of evidence."""
    for group in groups:
        end = run.ends[group.ports[0]]
        reason = reasons[group.ports[0]]
        if len(group.ports) > 1:
            reason = f"{len(group.ports)} of {group.ports_read} ports, such as {end.node} rail {end.rail}: {reason}"
        names = fold_hosts([run.topology.nodes[node] for node in group.culprit.nodes])
        yield RungCulprit(rung, group.culprit, reason, look.format(names))


def _judge_gid(run: ProofState, port: int, facts: PortFacts | None) -> PathFinding:
    end = run.ends[port]
    if port in run.absent:
        return run.absent[port]
    if facts is None:
        return PathFinding("not-tested", "rdma", None, run.explain_loss(end.node))
    if end.rdma == pod_ends.NO_DEVICE:
        return PathFinding("fail", "rdma", None, f"no RDMA device in its pod has a GID of {end.address}")
    if facts.gid.gid_index is None:
        return PathFinding("unknown" if facts.gid.is_unknown else "fail", "rdma", None, facts.gid.reason)
    return PathFinding("pass", "rdma", None)
