"""`trackbed import`: conversion of an existing site's files to a Fabric."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import LOCK_NAME, exit_with_problems, refuse, refuse_output_option, suggest_name
from trackbed.cli.terminal import emit_document
from trackbed.fabric.importers.registry import SOURCES, load_source

if TYPE_CHECKING:
    from trackbed.fabric.importers.result import ImportResult
    from trackbed.fabric.importers.source import Source
    from trackbed.fabric.model.problems import Problem

FABRIC_NAME = "fabric.yaml"


class _SourceGroup(click.Group):
    """A command for each source. A source is imported when its command is called, so that --help imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(SOURCES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - as above
        return _build_command(name) if name in SOURCES else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Sources"):
            formatter.write_dl([(name, about) for name, (_, about) in SOURCES.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in SOURCES:
            ctx.fail(f"no such source {args[0]!r}{suggest_name(args[0], SOURCES)}")
        return super().resolve_command(ctx, args)


@click.group("import", cls=_SourceGroup, subcommand_metavar="SOURCE DIR")
def command() -> None:
    """Convert an existing site's files to a Fabric.

    \b
    Examples:
      trackbed import netplan ./netplan | trackbed plan -f -
      trackbed import networkd ./hosts --to .     hosts/gpu-0/etc/systemd/network/
      trackbed import nmstate ./policies --to .   NodeNetworkConfigurationPolicies
      trackbed import l8k ./cluster --to .        cluster-config.yaml
    """


def _build_command(name: str) -> click.Command:
    """Return the command that imports one source."""

    @click.command(name, help=_build_help(name, load_source(name)))
    @click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
    @click.option(
        "--to",
        "target",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help=f"Write {FABRIC_NAME} and {LOCK_NAME} there instead of printing both.",
    )
    @refuse_output_option
    @click.option("--force", is_flag=True, help="With --to, replace files that exist.")
    def import_source(directory: Path, target: Path | None, force: bool) -> None:
        _run(name, directory, target, force=force)

    return import_source


def _build_help(name: str, source: Source) -> str:
    return f"""Convert the {source.noun}s in DIRECTORY to a Fabric and its lock.

    DIRECTORY holds {source.layout}. {source.about} Differences from the plan are reported on standard error.

    Exits with 0 when the plan reproduces the files: every address, route, table and rule. Exits with 1 when something
    differs, and says what; with 2 without a Fabric.

    \b
    Examples:
      trackbed import {name} ./{name} | trackbed plan -f -
      trackbed import {name} ./{name} --to .
    """


def _run(name: str, directory: Path, target: Path | None, *, force: bool) -> None:
    if target is not None and not force:
        _refuse_existing(target)
    imported, unread = _import_directory(name, directory)
    texts = {FABRIC_NAME: imported.render_fabric(), LOCK_NAME: imported.render_lock()}
    for problem in (*unread, *imported.problems):
        click.echo(problem, err=True)
    if target is None:
        emit_document("---\n".join(texts.values()))
    else:
        _write_texts(target, texts, force=force)
    click.echo(imported.summary, err=True)
    raise SystemExit(0 if imported.is_clean and not unread else 1)


def import_folder(directory: Path) -> tuple[bytes, str]:
    """Import a folder of netplan files; return a text with the Fabric and its lock, and a summary."""
    imported, _ = _import_directory("netplan", directory)
    return f"{imported.render_fabric()}---\n{imported.render_lock()}".encode(), imported.summary


def _import_directory(name: str, directory: Path) -> tuple[ImportResult, list[Problem]]:
    from trackbed.cli.import_files import TooManyFilesError, collect_files
    from trackbed.fabric.model.problems import SpecError

    source = load_source(name)
    try:
        hosts, unread = collect_files(directory, source)
    except (OSError, TooManyFilesError) as error:
        refuse(f"cannot read {directory}: {getattr(error, 'strerror', None) or error}")
    if not hosts and not unread:
        refuse(f"{directory} holds no {source.noun}s; it must hold {source.layout}")
    try:
        return source.import_files(hosts, _to_label(directory)), unread
    except SpecError as error:
        exit_with_problems([*unread, *error.problems])


def _to_label(directory: Path) -> str:
    """Return the directory's name as a DNS label, for the Fabric's name."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower())[:63].strip("-")
    return name or "imported"


def _refuse_existing(target: Path) -> None:
    for path in (target / FABRIC_NAME, target / LOCK_NAME):
        if path.exists():
            refuse(f"{path} exists; write elsewhere, or replace it with --force")


def _write_texts(target: Path, texts: dict[str, str], *, force: bool) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (target / name).open("w" if force else "x", encoding="utf-8") as stream:
                stream.write(text)
            click.echo(f"wrote {target / name}", err=True)
    except OSError as error:
        refuse(f"cannot write {error.filename or target}: {error.strerror}")
