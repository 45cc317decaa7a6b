"""`trackbed prove`: measure the rails of nodes, and name what is slow or broken."""

from __future__ import annotations

from inspect import GEN_CREATED, getgeneratorstate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.completion import complete_nodes
from trackbed.cli.options import check_name, emit_json, output_option, plan_option, read_plan, refuse
from trackbed.cli.prove_pods import PodOptions, leave_out_busy_nodes, pod_options, read_plan_for_pods, run_in_pods
from trackbed.cli.prove_report import check_page, print_report, read_baselines, write_page
from trackbed.cli.prove_ssh import build_ssh_options, run_on_hosts, ssh_options
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.proof import Proof
    from trackbed.prove.sheets import Answers, Sheet

    Advance = Callable[[Mapping[int, Any], Mapping[str, str]], Sheet | None]

_MODES = ("screen", "cover", "full", "matrix")


@click.command("prove")
@plan_option
@click.option(
    "--nodes",
    "node_set",
    metavar="SET",
    required=True,
    shell_complete=complete_nodes,
    help="Nodes to prove: 'gpu[001-128]', or all.",
)
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    default="screen",
    show_default=True,
    help="screen: 3 rounds; cover: each link between leaf and spine; full: all pairs of a rail; matrix: rail by rail.",
)
@click.option(
    "--rungs",
    metavar="LIST",
    help="Rungs of the ladder to climb, with commas: ping, gid, rdma_cm, write_bw, write_lat. Default: all.",
)
@click.option("--budget", is_flag=True, help="Print what it costs, and run nothing.")
@ssh_options
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write one HTML page: heat maps by leaf and node, and why something is blamed.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="An earlier proof (-o json): what is slower since then is bad, by model of server and firmware.",
)
@pod_options
@output_option("table", "json", "junit")
def command(
    fabric_file: str,
    node_set: str,
    mode: str,
    rungs: str | None,
    budget: bool,
    user: str | None,
    ssh_config: Path | None,
    launch: str | None,
    page: Path | None,
    against: Path | None,
    output_format: str,
    **pod_values: Any,  # noqa: ANN401 - the options of prove_pods
) -> None:
    """Measure the rails of nodes against each other, and name the NIC, node, leaf or path that is broken.

    Tests run in rounds in which each port has one partner, all rails at once, so a screen takes 3 rounds whatever
    the number of nodes. A test that does not pass on a rung of the ladder is not tested on the rungs above it. Ping
    is IP alone, and says nothing of RDMA. It loads the rails: run it on nodes without jobs. Nothing is installed or
    left on the nodes; RDMA rungs need rping (rdma-core) and perftest there. In a job of Slurm or MPI, --launch
    starts the workers by srun or mpirun, as the user of the job, without SSH. With --pods the tests run from a pod
    on each node, through the rails that jobs get, and the pods are removed at the end. Exits with 0 when all is
    proved, 1 when something is broken, 3 when something was not tested, or by IP alone.

    \b
    Examples:
      trackbed prove -f fabric.yaml --nodes 'gpu[001-128]' --budget
      trackbed prove -f fabric.yaml --nodes 'gpu[001-128]'
      trackbed prove -f fabric.yaml --nodes all --mode cover -o json
      trackbed prove -f fabric.yaml --nodes all --against last-week.json
      trackbed prove -f fabric.yaml --nodes all --report proof.html -o junit >proof.xml
      trackbed prove -f fabric.yaml --nodes all --rungs ping,gid
      trackbed prove -f fabric.yaml --nodes all --pods --image IMAGE --idle
      trackbed prove -f fabric.yaml --nodes "$SLURM_JOB_NODELIST" --launch 'srun --nodelist %h --ntasks 1 --overlap'
    """
    pods = PodOptions(**pod_values)
    if budget and (page or against or output_format == "junit"):
        refuse("--budget measures nothing; leave out --report, --against and -o junit")
    check_page(page)
    before = read_baselines(against) if against else None
    pods.check(has_ssh_options=bool(user or ssh_config or launch), needs_image=not budget)
    ssh = build_ssh_options(user, ssh_config, launch)
    whole, requirements = read_plan_for_pods(fabric_file, pods) if pods.pods else (read_plan(fabric_file), None)
    plan, chosen = _select_plan(whole, node_set), _parse_rungs(rungs)
    _check_pairs(plan, mode)
    if pods.idle:
        plan = leave_out_busy_nodes(plan, pods)
        if not _has_tests(plan, mode):
            print_line("too few nodes are idle, so nothing was tested; run it again later", err=True)
            raise SystemExit(3)
    if budget:
        _print_budget(plan, mode, chosen, output_format)
        return

    from trackbed.prove.proof import prove
    from trackbed.prove.report import build_report

    def run(advance: Advance, report: Callable[[str], None]) -> None:
        if requirements is None:
            run_on_hosts(plan, ssh, advance, report)
        else:
            run_in_pods(plan, requirements, pods, _compute_most_seconds(plan, mode, chosen), advance, report)

    proof, events = _run_proof(prove(plan, mode, chosen, in_pods=pods.pods), run)
    report = build_report(proof, before)
    print_report(proof, report, output_format, events)
    if page:
        how = "in pods" if pods.pods else f"by {ssh.launcher[0]}" if ssh.launcher else "over SSH"
        write_page(page, proof, report, plan.common.fabric, f"{mode} {how}")
    raise SystemExit(report.status)


def _compute_most_seconds(plan: Plan, mode: str, rungs: Sequence[str]) -> float:
    from trackbed.prove.budget import compute_ladder_budget

    return compute_ladder_budget(plan, mode, rungs).most_seconds


def _parse_rungs(text: str | None) -> tuple[str, ...]:
    """Return rungs in the order of the ladder. Exit with status 2 for a name that is none."""
    from trackbed.prove.rungs import LADDER

    names = LADDER if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        check_name(name, LADDER, "rung", f"the ladder has {', '.join(LADDER)}")
    return tuple(rung for rung in LADDER if rung in names)


def _select_plan(plan: Plan, node_set: str) -> Plan:
    from trackbed.cli.fleet import select_names

    if not plan.common.has_addresses:
        refuse("the Fabric plans no addresses (scheme none), so no test has a source and a target")
    names = set(select_names(plan, node_set))
    return plan._replace(nodes=tuple(node for node in plan.nodes if node.name in names))


def _check_pairs(plan: Plan, mode: str) -> None:
    """Exit with status 2 if a mode has no test for these nodes."""
    if not _has_tests(plan, mode):
        lack = {
            "cover": "the nodes of each rail are on one leaf, so no link between leaf and spine carries traffic",
            "matrix": "no node has a partner",
        }.get(mode, "no rail has two ports")
        remedy = "use --mode screen" if mode == "cover" else "choose more nodes"
        refuse(f"--mode {mode} has nothing to test here: {lack}; {remedy}")


def _has_tests(plan: Plan, mode: str) -> bool:
    from trackbed.prove.budget import compute_budget
    from trackbed.prove.topology import build_topology

    return compute_budget(build_topology(plan), mode).tests > 0


def _print_budget(plan: Plan, mode: str, rungs: Sequence[str], output_format: str) -> None:
    from trackbed.fabric.documents import to_camel, to_document
    from trackbed.prove.budget import compute_ladder_budget

    budget = compute_ladder_budget(plan, mode, rungs)
    if output_format == "json":
        emit_json(to_document(budget, to_camel))
        return
    from trackbed.cli.tables import print_table

    rows = [
        (cost.rung, cost.transport.upper(), str(cost.tests), str(cost.rounds), f"{cost.seconds:.0f}")
        for cost in budget.rungs
    ]
    print_table(("rung", "over", "tests", "rounds", "seconds"), rows)
    click.echo(
        f"{mode} of {budget.nodes} nodes with {budget.ports} ports: {budget.seconds:.0f} s;"
        f" suspects add {budget.most_repeats} rounds to a rung at most, {budget.most_seconds:.0f} s in all"
    )
    if budget.coverage is not None:
        click.echo(f"each link between leaf and spine is hit with a probability of {budget.coverage:.2%} at least")


def _run_proof(
    proof: Generator[Sheet, Answers, Proof], run: Callable[[Advance, Callable[[str], None]], None]
) -> tuple[Proof, list[str]]:
    """Run the sheets of a proof; return it with the lines of its progress."""
    from trackbed.prove.sheets import Answers

    proofs: list[Proof] = []
    events: list[str] = []

    def advance(outputs: Mapping[int, Any], failures: Mapping[str, str]) -> Sheet | None:
        try:
            return next(proof) if getgeneratorstate(proof) == GEN_CREATED else proof.send(Answers(outputs, failures))
        except StopIteration as end:
            proofs.append(end.value)
            return None

    def report_event(text: str) -> None:
        events.append(text)
        print_line(text, err=True)

    run(advance, report_event)
    return proofs[0], events
