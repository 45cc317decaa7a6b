"""`trackbed prove`: measure the rails of nodes, and name what is slow or broken."""

from __future__ import annotations

from functools import partial
from inspect import GEN_CREATED, getgeneratorstate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.completion import complete_nodes
from trackbed.cli.options import output_option, plan_option, refuse
from trackbed.cli.prove_answers import AnswerFile, answers_option, open_answers, read_former_runs
from trackbed.cli.prove_pods import PodOptions, pod_options, run_in_pods
from trackbed.cli.prove_record import RecordOptions, check_railnodes, record_options, record_proof
from trackbed.cli.prove_report import check_page, print_budget, print_report, read_baselines, write_page
from trackbed.cli.prove_source import (
    check_pairs,
    check_recorded_rungs,
    check_share,
    from_cluster_option,
    parse_rungs,
    read_source,
    select_idle_nodes,
    select_plan,
    share_option,
)
from trackbed.cli.prove_ssh import build_ssh_options, run_on_hosts, ssh_options
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from trackbed.fleet.sheet_run import SheetCalls
    from trackbed.prove.proof import Proof
    from trackbed.prove.sheets import Answers, Sheet

    Run = Callable[[SheetCalls], None]

_MODES = ("screen", "cover", "full", "matrix")


@click.command("prove")
@plan_option
@from_cluster_option
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
    help="Rungs of the ladder to climb, with commas: ping, tcp_bw, gid, rdma_cm, write_bw, write_lat, gpu_bw."
    " Default: all but tcp_bw and gpu_bw.",
)
@share_option
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
@answers_option
@record_options
@pod_options
@output_option("table", "json", "junit")
def command(
    fabric_file: str,
    from_cluster: str | None,
    node_set: str,
    mode: str,
    rungs: str | None,
    share: float,
    budget: bool,
    user: str | None,
    ssh_config: Path | None,
    launch: str | None,
    page: Path | None,
    against: Path | None,
    answers_file: Path | None,
    record: bool,
    taint: bool,
    output_format: str,
    **pod_values: Any,  # noqa: ANN401 - the options of prove_pods
) -> None:
    """Measure the rails of nodes against each other, and name the NIC, node, leaf or path that is broken.

    Tests run in rounds in which each port has one partner, all rails at once, so a screen takes 3 rounds whatever
    the number of nodes. A test that does not pass on a rung of the ladder is not tested on the rungs above it. Ping
    is IP alone, and says nothing of RDMA. It loads the rails: run it on nodes without jobs. Nothing is installed or
    left on the nodes; RDMA rungs need rping (rdma-core) and perftest there. In a job of Slurm or MPI, --launch
    starts the workers by srun or mpirun, as the user of the job, without SSH. With --pods the tests run from a pod
    on each node, through the rails that jobs get, and the pods are removed at the end. With --to-cluster the cluster
    keeps what was found: condition Proved of each RailNode. Exits with 0 when all is proved, 1 when something is
    broken, 3 when something was not tested, or by IP alone.

    \b
    Examples:
      trackbed prove -f fabric.yaml --nodes 'gpu[001-128]' --budget
      trackbed prove -f fabric.yaml --nodes 'gpu[001-128]'
      trackbed prove -f fabric.yaml --nodes all --mode cover -o json
      trackbed prove -f fabric.yaml --nodes all --against last-week.json
      trackbed prove -f fabric.yaml --nodes all --report proof.html \\
          -o junit >proof.xml
      trackbed prove -f fabric.yaml --nodes all --rungs ping,gid
      trackbed prove -f fabric.yaml --nodes all --mode full \\
          --answers answers.jsonl
      trackbed prove -f fabric.yaml --nodes all --share 0.1
      trackbed prove -f fabric.yaml --nodes all --pods --image IMAGE --idle
      trackbed prove --from-cluster train --nodes all --pods --image IMAGE \\
          --idle --to-cluster --taint
      trackbed prove -f fabric.yaml --nodes "$SLURM_JOB_NODELIST" \\
          --launch 'srun --nodelist %h --ntasks 1 --overlap'
    """
    pods = PodOptions(**pod_values)
    keeping = RecordOptions(record, taint, pods.kubeconfig, pods.context)
    if budget:
        outputs = {"--report": page, "--against": against, "--answers": answers_file, "--to-cluster": record}
        outputs["-o junit"] = output_format == "junit"
        _refuse_outputs([name for name, value in outputs.items() if value])
    check_page(page)
    before = read_baselines(against) if against else None
    keeping.check()
    has_ssh_options, uses_cluster = bool(user or ssh_config or launch), record or from_cluster is not None
    pods.check(has_ssh_options=has_ssh_options, needs_image=not budget, uses_cluster=uses_cluster)
    ssh = build_ssh_options(user, ssh_config, launch)
    whole, requirements = read_source(fabric_file, from_cluster, pods)
    plan, chosen = select_plan(whole, node_set), parse_rungs(rungs)
    check_pairs(plan, mode)
    check_share(share, mode, chosen, is_recorded=record)
    check_recorded_rungs(chosen, is_recorded=record)
    if pods.idle:
        plan = select_idle_nodes(plan, mode, pods, read_former_runs(answers_file))
    if budget:
        print_budget(plan, mode, chosen, output_format, in_pods=pods.pods)
        return
    if record:
        check_railnodes(keeping)

    from trackbed.prove.proof import prove
    from trackbed.prove.report import build_report

    conditions = ("pods" if pods.pods else "hosts", *([] if share == 1 else [f"share {share}"]))
    with open_answers(answers_file, plan, mode, chosen, conditions) as answers:
        run: Run = partial(run_on_hosts, plan, ssh)
        if requirements is not None:
            run = partial(run_in_pods, plan, requirements, pods, mode, chosen, answers)
        proof, events = run_proof(prove(plan, mode, chosen, in_pods=pods.pods, share=share), run, answers)
        report = build_report(proof, before)
        print_report(proof, report, output_format, events)
        unrecorded = record_proof(proof, report, keeping) if record else 0
        how = "in pods" if pods.pods else f"by {ssh.launcher[0]}" if ssh.launcher else "over SSH"
        unwritten = write_page(page, proof, report, plan.common.fabric, f"{mode} {how}") if page else 0
    raise SystemExit(report.status or unrecorded or unwritten)


def _refuse_outputs(names: Sequence[str]) -> None:
    """Exit with status 2 if any of these options stands beside --budget."""
    if names:
        refuse(f"--budget measures nothing; leave out {', '.join(names)}")


def run_proof(proof: Generator[Sheet, Answers, Proof], run: Run, answers: AnswerFile) -> tuple[Proof, list[str]]:
    """Run the sheets of a proof, without the tests that are answered; return it with the lines of its progress."""
    from trackbed.fleet.sheet_run import SheetCalls
    from trackbed.prove.kept import leave_out_kept
    from trackbed.prove.sheets import Answers

    proofs: list[Proof] = []
    events: list[str] = []
    sheets = leave_out_kept(proof, answers.kept)

    def advance(outputs: Mapping[int, Any], failures: Mapping[str, str]) -> Sheet | None:
        try:
            is_first = getgeneratorstate(sheets) == GEN_CREATED
            sheet = next(sheets) if is_first else sheets.send(Answers(outputs, failures))
        except StopIteration as end:
            proofs.append(end.value)
            return None
        answers.begin_sheet(sheet)
        return sheet

    def report_event(text: str) -> None:
        events.append(text)
        print_line(text, err=True)

    if answers.begun:
        report_event(f"goes on from {answers.begun}, with {len(answers.kept)} tests that were answered")
    run(SheetCalls(advance, report_event, answers.keep))
    return proofs[0], events
