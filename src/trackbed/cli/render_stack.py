"""`trackbed render stack NAME`: what a cluster must hold so that pods get rails, as objects or as files to install."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.options import emit_json, fabric_option, folder_option, meant, read_fabric, refuse, stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan


def stack_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Names of stacks that begin so, for the shell."""
    from trackbed.cluster.stacks import MODULES

    return [name for name in MODULES if name.startswith(incomplete)]


@click.command("stack")
@click.argument("name", shell_complete=stack_names)
@fabric_option
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the objects as one JSON List.")
def stack(name: str, fabric_file: str, folder: Path | None, as_json: bool) -> None:
    """Write what stack NAME needs; `trackbed stacks` lists them.

    \b
    Examples:
      trackbed render stack spiderpool -f fabric.yaml | kubectl apply --server-side -f -
      trackbed render stack network-operator-sriov -f fabric.yaml -o ./cluster && ./cluster/install.sh
      trackbed import netplan ./netplan | trackbed render stack network-operator-hostdevice -f -
    """
    one, planned = planned_stack(name, fabric_file)
    if folder is not None:
        _write(folder, one, planned)
    elif as_json:
        from trackbed.cluster.stacks.stack import objects

        emit_json({"apiVersion": "v1", "kind": "List", "items": list(objects(one, planned))})
    else:
        for text in _texts(one, planned):
            click.echo(text, nl=False)


@click.command("rights")
@click.argument("name", shell_complete=stack_names)
@fabric_option
@click.option(
    "--account",
    metavar="NAMESPACE:NAME",
    default="trackbed-system:trackbed-controller",
    show_default=True,
    help="The service account that gets them.",
)
def rights(name: str, fabric_file: str, account: str) -> None:
    """Write what an account must be allowed so that it may apply stack NAME: a ClusterRole and its binding.

    \b
    Example:
      trackbed render rights sriov-operator -f fabric.yaml | kubectl apply -f -
    """
    from trackbed.cluster.stacks.rights import role
    from trackbed.fabric.yaml_text import render_documents

    if not all(account.partition(":")):
        refuse(f"--account {account}: write the service account's namespace and name as NAMESPACE:NAME")
    for text in render_documents(role(*planned_stack(name, fabric_file), account)):
        click.echo(text, nl=False)


def planned_stack(name: str, fabric_file: str) -> tuple[Stack, Plan]:
    """The stack of that name and the plan, if the one can carry the other; else the command ends with status 2."""
    from trackbed.cluster.stacks import stack
    from trackbed.cluster.stacks.refusals import refusals

    one = stack(known_stack(name))
    loaded, planned = read_fabric(fabric_file)
    problems = list(refusals(one, planned))
    if problems:
        stop(loaded.locate(problems))
    return one, planned


def known_stack(name: str) -> str:
    """The name, if a stack has it; else the command ends with status 2."""
    from trackbed.cluster.stacks import MODULES

    if name not in MODULES:
        refuse(f"no stack {name!r}{meant(name, MODULES, '`trackbed stacks` lists them')}")
    return name


def _texts(one: Stack, planned: Plan) -> Iterable[str]:
    from trackbed.cluster.stacks.stack import objects
    from trackbed.fabric.yaml_text import render_documents

    if not one.has_objects and not one.files(planned):
        from trackbed.cluster.stacks.install.readme import readme

        yield from readme(one, planned, ())  # nothing to put into the cluster: what a pod carries there
    yield from render_documents(objects(one, planned))
    for name, text in one.files(planned).items():
        yield f"# --- {name}\n{text}"


def _write(folder: Path, one: Stack, planned: Plan) -> None:
    from trackbed.cluster.stacks.install import bundle

    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, chunks in bundle(one, planned):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, chunks)
            count += 1
    except OSError as error:
        refuse(f"cannot write {error.filename or folder}: {error.strerror}")
    click.echo(f"wrote {count} files to {folder}")


def _replace(path: Path, chunks: Iterable[str]) -> None:
    """Write a file whole or not at all; scripts can be run."""
    fresh: Any = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("w", encoding="utf-8") as stream:
            stream.writelines(chunks)
        fresh.chmod(0o755 if path.suffix == ".sh" else 0o644)
        fresh.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
