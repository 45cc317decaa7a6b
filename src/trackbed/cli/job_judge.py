"""`trackbed job judge`: whether an all-reduce reached what the rails allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_file
from trackbed.cli.job_options import choose_rails_or_refuse
from trackbed.cli.options import (
    emit_json,
    exit_unknown,
    fabric_option,
    output_option,
    read_input_or_exit,
    read_plan,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.prove.all_reduce import AllReduceFinding
    from trackbed.prove.nccl_log import NcclLog


@click.command("judge")
@click.argument("file", metavar="LOG|-", shell_complete=complete_file)
@fabric_option
@click.option("--rails", metavar="NUMBERS", help="Rails that the job had, as for `job new`. Default: all.")
@output_option("table", "json")
def judge(file: str, fabric_file: str, rails: str | None, output_format: str) -> None:
    """Say from the LOG of nccl-tests or rccl-tests whether an all-reduce reached what the rails allow.

    The bus bandwidth of the largest size is compared with the rate of the rails (spec.rate): under 0.90 of it fails,
    under 0.95 is a warning. A test that failed, or whose log ends before it did, does not pass; of several runs in a
    log each is judged. With `job new mpijob --by-rail` each rail has a value of its own. Where the log has lines
    of NCCL (`--nccl NCCL_DEBUG=INFO`), the ports that NCCL used are compared too, and the way to GPU memory.

    Exits with 0 when all passed, 1 when something failed or is low, 2 on wrong use or input, 3 when nothing can be
    judged.

    \b
    Examples:
      kubectl logs job/all-reduce-launcher | trackbed job judge -
      trackbed job judge all-reduce.log -f fabric.yaml --rails 0-3 -o json
    """
    from trackbed.cluster.jobs.requirements import narrow_plan
    from trackbed.prove.all_reduce import judge_runs
    from trackbed.prove.nccl_log import MAX_BYTES, read_nccl_runs

    if file == fabric_file == "-":
        refuse("the log and the Fabric cannot both come from standard input; name a file for one of them")
    plan = read_plan(fabric_file)
    plan = narrow_plan(plan, choose_rails_or_refuse(plan, rails))
    runs = read_nccl_runs(read_input_or_exit(file, MAX_BYTES))
    if others := [run.program for run in runs if run.program and "all_reduce" not in run.program]:
        refuse(f"{file}: this is a log of {others[0]}; all_reduce_perf is judged alone")
    findings = judge_runs(plan, runs)
    if not findings:
        exit_unknown(_explain_nothing(file, runs[-1]))
    _print_findings(findings, output_format)
    if not any(run.ports for run in runs) and output_format == "table":
        click.echo("the log does not say which ports NCCL used; add --nccl NCCL_DEBUG=INFO to `job new`", err=True)
    verdicts = {finding.verdict for finding in findings}
    raise SystemExit(1 if verdicts & {"fail", "warn"} else 3 if verdicts & {"unknown", "not-tested"} else 0)


def _explain_nothing(file: str, log: NcclLog) -> str:
    """Return why nothing is judged: the job failed, or this is another file."""
    if log.results:
        return f"{file}: the lines of the ranks (# Rank 0 ...) are missing; give the log from its beginning"
    if log.warnings:
        return f"{file}: the all-reduce has no result. NCCL warned: {'; '.join(log.warnings)}"
    ranks = f"{len(log.ranks)} ranks began" if log.ranks else "this is no log of nccl-tests"
    return f"{file}: the all-reduce has no result: {ranks}"


def _print_findings(findings: Sequence[AllReduceFinding], output_format: str) -> None:
    if output_format == "json":
        emit_json([finding._asdict() for finding in findings])
        return
    from trackbed.cli.tables import print_table

    print_table(("", "what", "why"), [(finding.verdict, finding.subject, finding.reason) for finding in findings])
