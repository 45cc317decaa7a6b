"""The ports before any traffic: their ends in pods, what their files say, and their GIDs."""

from __future__ import annotations

from collections.abc import Generator

from trackbed.prove import gpus, pod_ends
from trackbed.prove.culprits import Culprit
from trackbed.prove.facts import PortFacts, build_step, parse_facts
from trackbed.prove.findings import PathFinding
from trackbed.prove.results import PathResult, PlannedTest
from trackbed.prove.rungs import GID
from trackbed.prove.rungs.rung import Step
from trackbed.prove.sheets import Answers, Sheet, SheetRound
from trackbed.prove.state import ProofState, RungCulprit, Stop

FACTS_SECONDS = 1.0
"""Length of the round in which nodes read their files."""
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
    for port, end in run.ends.items():
        facts = run.facts.get(port)
        finding = _judge_gid(run, port, facts)
        if facts and finding.verdict == "pass" and run.plan.common.link_type == "ethernet":
            run.ends[port] = end._replace(gid_index=facts.gid.gid_index)
        if finding.verdict == "fail":
            node, rail = divmod(port, run.topology.rails)
            look = pod_ends.LOOK if run.in_pods else _GID_LOOK.format(end.node)
            culprit = Culprit("port", 1.0, rail=rail, nodes=(node,))
            run.culprits.append(RungCulprit(GID, culprit, finding.reason, look))
        if finding.verdict != "pass":
            run.port_stops[port] = Stop(finding.reason, end.node)
        run.results.append(PathResult(GID, PlannedTest(0, "port", port, port), finding, node=end.node))


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
