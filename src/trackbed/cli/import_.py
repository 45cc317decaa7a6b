"""`trackbed import`: conversion of an existing site's files to a Fabric."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import LOCK_NAME, refuse, stop

if TYPE_CHECKING:
    from trackbed.fabric.importers.result import ImportResult
    from trackbed.fabric.model.problems import Problem

FABRIC_NAME = "fabric.yaml"


@click.group("import")
def command() -> None:
    """Turn an existing site's files into a Fabric."""


@command.command("netplan")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help=f"Write {FABRIC_NAME} and {LOCK_NAME} there instead of printing both.",
)
@click.option("--force", is_flag=True, help="With -o, replace files that exist.")
def netplan(directory: Path, target: Path | None, force: bool) -> None:
    """Turn the netplan files in DIRECTORY into a Fabric and its lock.

    DIRECTORY holds HOST.yaml for each host, or a directory HOST with that host's files. Rails are found by their
    ranges; management and storage interfaces are left out. Differences from the plan are reported on standard error.

    Exits with 0 when the plan reproduces the files, with 1 when problems were found, with 2 without a Fabric.

    \b
    Examples:
      trackbed import netplan ./netplan | trackbed plan -f -
      trackbed import netplan ./netplan -o .
    """
    if target is not None and not force:
        _refuse_existing(target)
    imported, unread = _import_directory(directory)
    texts = {FABRIC_NAME: imported.render_fabric(), LOCK_NAME: imported.render_lock()}
    for problem in (*unread, *imported.problems):
        click.echo(problem, err=True)
    if target is None:
        click.echo("---\n".join(texts.values()), nl=False)
    else:
        _write(target, texts, force=force)
    click.echo(imported.summary, err=True)
    raise SystemExit(0 if imported.is_clean and not unread else 1)


def import_folder(directory: Path) -> tuple[bytes, str]:
    """Import a folder of netplan files; return a text with the Fabric and its lock, and a summary."""
    imported, _ = _import_directory(directory)
    return f"{imported.render_fabric()}---\n{imported.render_lock()}".encode(), imported.summary


def _import_directory(directory: Path) -> tuple[ImportResult, list[Problem]]:
    from trackbed.cli.netplan_files import TooManyFilesError, collect_files
    from trackbed.fabric.importers.netplan import import_netplan
    from trackbed.fabric.model.problems import SpecError

    try:
        hosts, unread = collect_files(directory)
    except (OSError, TooManyFilesError) as error:
        refuse(f"cannot read {directory}: {getattr(error, 'strerror', None) or error}")
    if not hosts and not unread:
        refuse(f"{directory} holds no netplan files: DIR/HOST.yaml for each host, or DIR/HOST/*.yaml")
    try:
        return import_netplan(hosts, _to_label(directory)), unread
    except SpecError as error:
        stop([*unread, *error.problems])


def _to_label(directory: Path) -> str:
    """Return the directory's name as a DNS label, for the Fabric's name."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower())[:63].strip("-")
    return name or "imported"


def _refuse_existing(target: Path) -> None:
    for path in (target / FABRIC_NAME, target / LOCK_NAME):
        if path.exists():
            refuse(f"{path} exists; write elsewhere, or replace it with --force")


def _write(target: Path, texts: dict[str, str], *, force: bool) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (target / name).open("w" if force else "x", encoding="utf-8") as stream:
                stream.write(text)
            click.echo(f"wrote {target / name}", err=True)
    except OSError as error:
        refuse(f"cannot write {error.filename or target}: {error.strerror}")
