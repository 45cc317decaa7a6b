"""`trackbed render stack NAME`: the objects of a cluster that provide rails to pods, and files to install them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.files import OutputFile, write_files
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import (
    check_name,
    emit_json,
    exit_with_problems,
    fabric_option,
    folder_option,
    output_option,
    read_fabric,
    refuse,
)
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.model.fabric import Fabric
    from trackbed.fabric.model.problems import Problem
    from trackbed.fabric.plan.plan import Plan


def complete_stack_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Return the names of stacks that begin with the typed prefix, for shell completion."""
    from trackbed.cluster.stacks import MODULES

    return [name for name in MODULES if name.startswith(incomplete)]


@click.command("stack")
@click.argument("name", shell_complete=complete_stack_name)
@fabric_option
@folder_option
@output_option("yaml", "json")
@refuse_option("--json", is_flag=True, instead="-o json")
def stack(name: str, fabric_file: str, folder: Path | None, output_format: str) -> None:
    """Write the objects and files of stack NAME; `trackbed stacks` lists the stacks.

    \b
    Examples:
      trackbed render stack spiderpool -f fabric.yaml \\
          | kubectl apply --server-side -f -
      trackbed render stack network-operator-sriov -f fabric.yaml \\
          --to ./cluster && ./cluster/install.sh
      trackbed import netplan ./netplan \\
          | trackbed render stack network-operator-hostdevice -f -
    """
    chosen, plan = load_stack(name, fabric_file)
    if folder is not None:
        from trackbed.cluster.stacks.install.bundle import render_bundle

        files = render_bundle(chosen, plan)
        write_files(
            folder, (OutputFile(path, chunks, 0o755 if path.endswith(".sh") else 0o644) for path, chunks in files)
        )
    elif output_format == "json":
        from trackbed.cluster.stacks.stack import iter_objects

        emit_json({"apiVersion": "v1", "kind": "List", "items": list(iter_objects(chosen, plan))})
    else:
        for text in _render_texts(chosen, plan):
            emit_document(text)


@click.command("rights")
@click.argument("name", shell_complete=complete_stack_name)
@fabric_option
@click.option(
    "--account",
    metavar="NAMESPACE:NAME",
    default="trackbed-system:trackbed-controller",
    show_default=True,
    help="Service account that gets the rights.",
)
def rights(name: str, fabric_file: str, account: str) -> None:
    """Write the rights that an account needs to apply stack NAME: a ClusterRole and its binding.

    \b
    Example:
      trackbed render rights sriov-operator -f fabric.yaml | kubectl apply -f -
    """
    from trackbed.cluster.stacks.rights import build_cluster_role
    from trackbed.fabric.yaml_text import render_documents

    if not all(account.partition(":")):
        refuse(f"--account {account}: write the service account's namespace and name as NAMESPACE:NAME")
    for text in render_documents(build_cluster_role(*load_stack_of_fabric(name, fabric_file), account)):
        emit_document(text)


def load_stack(name: str, fabric_file: str) -> tuple[Stack, Plan]:
    """Return the stack of that name and the plan, with its warnings on standard error.

    Exit with status 2 if the stack cannot implement the plan.
    """
    chosen, plan = load_stack_of_fabric(check_stack_name(name), fabric_file)
    for problem in chosen.warnings(plan):
        click.echo(problem, err=True)
    return chosen, plan


def load_stack_of_fabric(name: str | None, fabric_file: str) -> tuple[Stack, Plan]:
    """Return the stack of that name, or without a name that of the Fabric, and the plan.

    Exit with status 2 if the stack cannot implement the plan.
    """
    loaded, plan = read_fabric(fabric_file)
    return choose_stack(name, loaded.fabric, plan, loaded.locate), plan


def choose_stack(
    name: str | None, fabric: Fabric, plan: Plan, locate: Callable[[Iterable[Problem]], Iterable[Problem]] = iter
) -> Stack:
    """Return the stack of that name, or without a name that of the Fabric.

    `locate` adds the places of problems. Exit with status 2 if the stack cannot implement the plan.
    """
    from trackbed.cluster.stacks import load_stack
    from trackbed.cluster.stacks.refusals import find_refusals

    chosen = load_stack(check_stack_name(name or fabric.spec.kubernetes.stack))
    if problems := list(find_refusals(chosen, plan)):
        exit_with_problems(locate(problems))
    return chosen


def check_stack_name(name: str) -> str:
    """Return the name of a stack. Exit with status 2 if it is unknown."""
    from trackbed.cluster.stacks import MODULES

    check_name(name, MODULES, "stack", "`trackbed stacks` lists them")
    return name


def _render_texts(stack: Stack, plan: Plan) -> Iterable[str]:
    from trackbed.cluster.stacks.stack import iter_objects
    from trackbed.fabric.yaml_text import render_documents

    if not stack.has_objects and not stack.files(plan):
        from trackbed.cluster.stacks.install.readme import render_readme

        yield from render_readme(stack, plan, ())  # without objects, the readme tells what a pod needs
    yield from render_documents(iter_objects(stack, plan))
    for name, text in stack.files(plan).items():
        yield f"# --- {name}\n{text}"
