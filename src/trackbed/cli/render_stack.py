"""`trackbed render stack NAME`: the objects of a cluster that provide rails to pods, and files to install them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.options import emit_json, fabric_option, folder_option, read_fabric, refuse, stop, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan


def stack_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Return the names of stacks that complete a prefix, for the shell."""
    from trackbed.cluster.stacks import MODULES

    return [name for name in MODULES if name.startswith(incomplete)]


@click.command("stack")
@click.argument("name", shell_complete=stack_names)
@fabric_option
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the objects as one JSON List.")
def stack(name: str, fabric_file: str, folder: Path | None, as_json: bool) -> None:
    """Write the objects and files of stack NAME; `trackbed stacks` lists the stacks.

    \b
    Examples:
      trackbed render stack spiderpool -f fabric.yaml | kubectl apply --server-side -f -
      trackbed render stack network-operator-sriov -f fabric.yaml -o ./cluster && ./cluster/install.sh
      trackbed import netplan ./netplan | trackbed render stack network-operator-hostdevice -f -
    """
    chosen, planned = load_stack(name, fabric_file)
    if folder is not None:
        _write_files(folder, chosen, planned)
    elif as_json:
        from trackbed.cluster.stacks.stack import objects

        emit_json({"apiVersion": "v1", "kind": "List", "items": list(objects(chosen, planned))})
    else:
        for text in _render_texts(chosen, planned):
            click.echo(text, nl=False)


@click.command("rights")
@click.argument("name", shell_complete=stack_names)
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
    from trackbed.cluster.stacks.rights import role
    from trackbed.fabric.yaml_text import render_documents

    if not all(account.partition(":")):
        refuse(f"--account {account}: write the service account's namespace and name as NAMESPACE:NAME")
    for text in render_documents(role(*load_stack(name, fabric_file), account)):
        click.echo(text, nl=False)


def load_stack(name: str, fabric_file: str) -> tuple[Stack, Plan]:
    """Return the stack of that name and the plan; a plan that the stack cannot implement ends with status 2."""
    from trackbed.cluster.stacks import stack
    from trackbed.cluster.stacks.refusals import refusals

    chosen = stack(check_stack_name(name))
    loaded, planned = read_fabric(fabric_file)
    problems = list(refusals(chosen, planned))
    if problems:
        stop(loaded.locate(problems))
    return chosen, planned


def check_stack_name(name: str) -> str:
    """Return the name of a stack; an unknown name ends the command with status 2."""
    from trackbed.cluster.stacks import MODULES

    if name not in MODULES:
        refuse(f"no stack {name!r}{suggest(name, MODULES, '`trackbed stacks` lists them')}")
    return name


def _render_texts(stack: Stack, planned: Plan) -> Iterable[str]:
    from trackbed.cluster.stacks.stack import objects
    from trackbed.fabric.yaml_text import render_documents

    if not stack.has_objects and not stack.files(planned):
        from trackbed.cluster.stacks.install.readme import readme

        yield from readme(stack, planned, ())  # without objects, the readme tells what a pod needs
    yield from render_documents(objects(stack, planned))
    for name, text in stack.files(planned).items():
        yield f"# --- {name}\n{text}"


def _write_files(folder: Path, stack: Stack, planned: Plan) -> None:
    from trackbed.cluster.stacks.install import bundle

    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, chunks in bundle(stack, planned):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace_file(path, chunks)
            count += 1
    except OSError as error:
        refuse(f"cannot write {error.filename or folder}: {error.strerror}")
    click.echo(f"wrote {count} files to {folder}")


def _replace_file(path: Path, chunks: Iterable[str]) -> None:
    """Write a file atomically; scripts are executable."""
    temporary: Any = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.writelines(chunks)
        temporary.chmod(0o755 if path.suffix == ".sh" else 0o644)
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
