"""Every command explains itself: what it does, with examples that keep their lines."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from trackbed.cli.main import cli


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


ALL = dict(commands(cli))


@pytest.mark.parametrize("name", ALL)
def test_a_command_explains_itself_with_examples_that_keep_their_lines(name: str) -> None:
    page = ALL[name].get_help(click.Context(ALL[name], info_name=f"trackbed {name}"))
    assert "\\b" not in page
    assert f"\n    trackbed {name}" in page or f" | trackbed {name}" in page, "an example on a line of its own"
