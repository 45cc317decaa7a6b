"""Groups of commands whose help shows the first sentence of each command whole; click cuts it to the line."""

from __future__ import annotations

import click

_LIMIT = 1000
"""Characters of a summary; longer than any first sentence."""


class CommandGroup(click.Group):
    """A group that folds the summaries of its commands instead of cutting them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the section of the group's commands."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.get_short_help_str(_LIMIT))
            for name, command in commands.items()
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
