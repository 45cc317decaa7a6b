"""`trackbed init`: a Fabric from discovered machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from trackbed.host.discover.inventory import Inventory


@click.command("init")
@click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[SOURCE]...")
@click.option("--name", default="train", show_default=True, help="Name of the fabric.")
@click.option("--ipv4", default="10.0.0.0/13", show_default=True, metavar="RANGE", help="Range that the rails share.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to write.")
def command(sources: tuple[Path, ...], name: str, ipv4: str, output: Path | None) -> None:
    """Make a Fabric of this machine, or of other machines' inventories.

    A SOURCE is the output of `trackbed discover -o json`, or an archive or folder of `trackbed capture`. Rails are in
    GPU order; other NICs are listed in comments with the reason. Machines that differ get a group of their own. An
    existing file is never overwritten.

    \b
    Examples:
      trackbed init -o fabric.yaml
      trackbed init gpu-*.json --ipv4 10.64.0.0/13 -o fabric.yaml
      trackbed init gpu-0.tar.gz | trackbed plan -f -
    """
    from trackbed.cli.inventories import read_sources
    from trackbed.cli.options import stop
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan
    from trackbed.host.discover.fabric import Choice, render_fabric

    inventories: list[Inventory] = [
        inventory for source in sources or (Path("/"),) for inventory in read_sources(source)
    ]
    try:
        text = render_fabric(inventories, Choice(name, ipv4))
    except ValueError as error:
        refuse(str(error))
    try:
        compute_plan(load_fabric(text.encode(), str(output or "<init>")).fabric, {})
    except SpecError as error:
        stop(error.problems)
    _write(text, output)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x") as stream:
            stream.write(text)
    except FileExistsError:
        refuse(f"{output} exists and is not overwritten; name another file, or remove it")
    except OSError as error:
        refuse(f"cannot write {output}: {error.strerror}")
