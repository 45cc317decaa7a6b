"""`trackbed help [COMMAND]`: the same as `trackbed COMMAND --help`."""

from __future__ import annotations

import click

from trackbed.cli.options import suggest_name


def _complete_command(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    root = context.find_root()
    names = root.command.list_commands(root) if isinstance(root.command, click.Group) else []
    return [name for name in names if name.startswith(incomplete)]


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_complete_command)
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command.

    \b
    Examples:
      trackbed help
      trackbed help apply cluster
    """
    shown = context.find_root()
    for word in words:
        group = shown.command
        inner = group.get_command(shown, word) if isinstance(group, click.Group) else None
        if inner is None:
            names = group.list_commands(shown) if isinstance(group, click.Group) else []
            raise click.UsageError(f"{shown.command_path} has no command {word!r}{suggest_name(word, names)}")
        shown = click.Context(inner, shown, word, **inner.context_settings)
    click.echo(shown.get_help())
