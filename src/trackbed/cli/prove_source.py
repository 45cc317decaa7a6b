"""What `trackbed prove` proves: nodes of the plan of a file, or of a Fabric of the cluster; and rungs of the ladder."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import check_name, exit_with_problems, read_plan, refuse
from trackbed.cli.prove_pods import PodOptions, leave_out_busy_nodes
from trackbed.cli.render_stack import choose_stack, load_stack_of_fabric
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.model.fabric import Fabric
    from trackbed.fabric.plan.plan import Plan

from_cluster_option = click.option(
    "--from-cluster", metavar="NAME", help="In place of -f: the Fabric NAME of the cluster, with its nodes' slots."
)
"""--from-cluster NAME, a Fabric of the cluster."""


def _check_number(_: click.Context, parameter: click.Parameter, value: float) -> float:
    """Return an option's number. Raises BadParameter for nan, which is in no range and outside of none."""
    if math.isnan(value):
        raise click.BadParameter("it is no number; write 0.1 for a tenth", param=parameter)
    return value


share_option = click.option(
    "--share",
    type=click.FloatRange(0.01, 1),
    default=1.0,
    show_default=True,
    metavar="PART",
    callback=_check_number,
    help="On a fabric in use: load this part of the ports' rate at most, as 0.1. What is slower than it is named.",
)
"""--share PART."""


def read_source(fabric_file: str, from_cluster: str | None, options: PodOptions) -> tuple[Plan, PodRequirements | None]:
    """Return the plan and, for a proof in pods, what these need.

    Exit with status 2 if there is no plan, or the stack gives pods no rails, 3 if the cluster does not respond.
    """
    if from_cluster:
        if click.get_current_context().get_parameter_source("fabric_file") != click.core.ParameterSource.DEFAULT:
            refuse("-f and --from-cluster both say what to prove; leave out one of them")
        fabric, plan = _read_fabric_of_cluster(from_cluster, options)
        return plan, _require_rails(choose_stack(options.stack_name, fabric, plan), plan) if options.pods else None
    if not options.pods:
        return read_plan(fabric_file), None
    stack, plan = load_stack_of_fabric(options.stack_name, fabric_file)
    return plan, _require_rails(stack, plan)


def _read_fabric_of_cluster(name: str, options: PodOptions) -> tuple[Fabric, Plan]:
    from trackbed.cli.cluster_session import open_cluster
    from trackbed.cluster.proof.plan import UnplannedError, read_plan_of_cluster
    from trackbed.fabric.model.problems import SpecError

    with open_cluster(options.kubeconfig, options.context) as cluster:
        try:
            return cluster.run(read_plan_of_cluster(cluster.client.client, name))
        except UnplannedError as error:
            refuse(error)
        except SpecError as error:
            exit_with_problems(error.problems)


def _require_rails(stack: Stack, plan: Plan) -> PodRequirements:
    from trackbed.cluster.jobs.requirements import build_requirements

    requirements = build_requirements(stack, plan)
    if not requirements.has_rails:
        refuse(f"stack {stack.name} gives no rails to pods; `trackbed stacks` lists those that do")
    return requirements


def select_plan(plan: Plan, node_set: str) -> Plan:
    """Return the plan of a set of nodes. Exit with status 2 if there are none, or none has addresses."""
    from trackbed.cli.fleet import select_names

    if not plan.common.has_addresses:
        refuse("the Fabric plans no addresses (scheme none), so no test has a source and a target")
    names = set(select_names(plan, node_set))
    return plan._replace(nodes=tuple(node for node in plan.nodes if node.name in names))


def select_idle_nodes(plan: Plan, mode: str, pods: PodOptions, former_runs: Sequence[str]) -> Plan:
    """Return the plan without nodes that others than `former_runs` keep busy.

    Exit with status 3 if nothing is left to test.
    """
    plan = leave_out_busy_nodes(plan, pods, former_runs)
    if not _has_tests(plan, mode):
        print_line("too few nodes are idle, so nothing was tested; run it again later", err=True)
        raise SystemExit(3)
    return plan


def check_pairs(plan: Plan, mode: str) -> None:
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


def check_share(share: float, mode: str, rungs: Sequence[str], *, is_recorded: bool) -> None:
    """Exit with status 2 if a share of the rate does not go with a mode, a rung, or a record of the proof."""
    if share == 1:
        return
    if mode == "cover":
        refuse("--mode cover loads links by half of their rate or more; use --mode screen with --share")
    if "tcp_bw" in rungs:
        refuse("rung tcp_bw sends as fast as it can; leave it out of --rungs with --share")
    if is_recorded:
        refuse(
            "--to-cluster keeps whether nodes reach their rate, and --share does not show that; leave out one of them"
        )


def check_recorded_rungs(rungs: Sequence[str], *, is_recorded: bool) -> None:
    """Exit with status 2 if a record would prove nodes by RDMA traffic of which no rung measures the rate.

    A port at a twentieth of its rate passes those. Without RDMA traffic nodes are blamed or unknown, never proved.
    """
    from trackbed.prove.rungs import PATH_RUNGS

    paths = [PATH_RUNGS[name] for name in rungs if name in PATH_RUNGS]
    traffic = [rung.name for rung in paths if rung.transport == "rdma"]
    if is_recorded and traffic and not any(rung.scale == "rate" for rung in paths):
        refuse(
            f"--to-cluster keeps whether nodes reach their rate, and --rungs has {' and '.join(traffic)}, which"
            f" {'do' if len(traffic) > 1 else 'does'} not show that; add write_bw to it, or leave out --to-cluster"
        )


def parse_rungs(text: str | None) -> tuple[str, ...]:
    """Return rungs in the order of the ladder; perftest's bring `gid` along. Exit with status 2 for another name."""
    from trackbed.prove.rungs import GID, LADDER, PATH_RUNGS, RUNGS

    names = LADDER if text is None else tuple(filter(None, re.split(r"[,\s]+", text)))
    if not names:
        refuse(f"--rungs names no rung; the ladder has {', '.join(RUNGS)}")
    for name in names:
        check_name(name, RUNGS, "rung", f"the ladder has {', '.join(RUNGS)}")
    # Without it perftest would choose a GID by itself, and maybe one of another address.
    if any(PATH_RUNGS[name].program.startswith("ib_") for name in names if name != GID):
        names = (*names, GID)
    return tuple(rung for rung in RUNGS if rung in names)
