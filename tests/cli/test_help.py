"""Every command explains itself: what it does, with examples that keep their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import click
import pytest
from click.shell_completion import BashComplete

from trackbed.cli.main import cli


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*words, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


ALL = dict(commands(cli))


@pytest.mark.parametrize("name", ALL)
def test_a_command_explains_itself_with_examples_that_keep_their_lines(name: str) -> None:
    page = ALL[name].get_help(click.Context(ALL[name], info_name=f"trackbed {name}"))
    assert "\\b" not in page
    assert not re.search(r"[a-z,:]\.\.\.$", page, re.MULTILINE), "no summary is cut"
    assert f"\n    trackbed {name}" in page or f" | trackbed {name}" in page, "an example on a line of its own"


def test_completion_works_where_the_lab_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_without_lab(name: str) -> ModuleType:
        if name.startswith("trackbed_lab"):
            raise ModuleNotFoundError(name="trackbed_lab")
        return import_module(name)

    monkeypatch.setattr("trackbed.cli.main.import_module", import_without_lab)
    shell = BashComplete(cli, {}, "trackbed", "_TRACKBED_COMPLETE")
    assert [item.value for item in shell.get_completions([], "l")] == ["lock", "lint"]


@pytest.mark.parametrize("name", ["", *ALL])
def test_a_page_fits_a_terminal_of_80_columns(name: str) -> None:
    command = ALL[name] if name else cli
    page = command.get_help(click.Context(command, info_name=f"trackbed {name}".strip(), terminal_width=80))
    assert [line for line in page.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", ["lab kubernetes roll", "lab kubernetes run", "lab vm run"])
def test_servers_have_a_default_of_their_own(name: str) -> None:
    option = next(option for option in ALL[name].params if option.name == "source")
    assert isinstance(option, click.Option)
    assert option.help == "A Fabric, or a folder of netplan files. Default: two servers with 8 rails."
