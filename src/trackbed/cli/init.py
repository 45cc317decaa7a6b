"""`trackbed init`: a Fabric from discovered machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse, refuse_output_option
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from trackbed.host.discover.fabric import Choice
    from trackbed.host.discover.inventory import Inventory


@click.command("init")
@click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[SOURCE]...")
@click.option("--name", default="train", show_default=True, help="Name of the fabric.")
@click.option("--ipv4", default="10.0.0.0/13", show_default=True, metavar="RANGE", help="Range that the rails share.")
@refuse_output_option
@click.option("--to", "output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to write.")
@click.option("--guided", is_flag=True, help="Ask for everything, with defaults from what was found.")
def command(sources: tuple[Path, ...], name: str, ipv4: str, output: Path | None, guided: bool) -> None:
    """Write a Fabric for this machine, or for other machines from their inventories.

    A SOURCE is the output of `trackbed discover -o json`, or an archive or folder of `trackbed capture --identified`
    (without that option, hosts have pseudonyms). Rails are in GPU order; other NICs are listed in comments with the
    reason. Machines that differ get a group of their own. An existing file is never overwritten.

    \b
    Examples:
      trackbed init --to fabric.yaml
      trackbed init gpu-*.json --ipv4 10.64.0.0/13 --to fabric.yaml
      trackbed init gpu-0.tar.gz | trackbed plan -f -
      trackbed init --guided              for servers that are not at hand too
    """
    from trackbed.cli.inventories import read_inventories
    from trackbed.cli.options import exit_with_problems
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan
    from trackbed.host.discover.fabric import Choice, render_fabric

    inventories: list[Inventory] = [
        inventory for source in sources or (Path("/"),) for inventory in read_inventories(source)
    ]
    if guided:
        _run_guide(inventories, Choice(name, ipv4), output or Path("fabric.yaml"))
        return
    try:
        text = render_fabric(inventories, Choice(name, ipv4))
    except ValueError as error:
        refuse(f"{error}; `trackbed init --guided` asks instead")
    try:
        compute_plan(load_fabric(text.encode(), str(output or "<init>")).fabric, {})
    except SpecError as error:
        exit_with_problems(error.problems)
    _write_fabric(text, output)


def _run_guide(inventories: list[Inventory], choice: Choice, output: Path) -> None:
    """Ask, write the Fabric, and print the next commands."""
    from trackbed.cli.init_draft import Draft
    from trackbed.cli.init_guide import ask_fabric

    if output.exists():
        refuse(f"{output} exists and is not overwritten; name another file with --to, or remove it")
    _write_fabric(ask_fabric(inventories, Draft(choice.name, ipv4=choice.ipv4)), output)
    click.echo(f"\nWrote {output}. Next:")
    for line in (f"plan -f {output}", f"lock -f {output}", f"stacks -f {output}", f"diff -f {output}"):
        click.echo(f"  trackbed {line}")


def _write_fabric(text: str, output: Path | None) -> None:
    if output is None:
        emit_document(text)
        return
    try:
        with output.open("x") as stream:
            stream.write(text)
    except FileExistsError:
        refuse(f"{output} exists and is not overwritten; name another file, or remove it")
    except OSError as error:
        refuse(f"cannot write {output}: {error.strerror}")
