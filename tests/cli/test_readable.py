"""What every command prints can be read on a terminal of any width: no address and no name is cut.

The invocations are those with a reviewed exit status, so a new command is tried as soon as it has one that prints. What
a command prints into a pipe is whole; each of its words must be whole on the terminal too.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from tests.cli.invocations import in_pipe, on_terminal
from tests.cli.test_command_tree import exit_codes, furnish, tree

pytestmark = pytest.mark.needs("processes")

WIDTHS = (60, 80, 120)
UNREAD = {
    "agent install-cni": "prints one path",
    "agent prepare": "a program that logs",
    "agent run": "a program that logs",
    "agent status": "needs an agent; its table is laid out as all are (test_table_layout)",
    "apply cluster": "needs a cluster; prints lines of text",
    "bios": "needs BMCs; its table is laid out as all are",
    "capture": "prints one path",
    "controller": "a program that logs",
    "diff cluster": "needs a cluster; prints lines of text",
    "doctor": "ends with 3 without a host, but prints its findings: it is read below like all",
    **dict.fromkeys(
        (f"import {kind}" for kind in ("ifcfg", "l8k", "networkd", "networkmanager", "nmstate", "rcp")),
        "prints as import netplan does",
    ),
    "lab break": "needs a lab; prints a line",
    "lab doctor": "needs a lab; prints as doctor does",
    "lab down": "prints a line",
    "lab exec": "prints what its program prints",
    "lab heal": "needs a lab; prints a line",
    "lab kubernetes down": "prints a line",
    "lab kubernetes exec": "prints what its program prints",
    "lab kubernetes logs": "prints a log",
    "lab kubernetes prove": "needs a cluster; prints phases",
    "lab kubernetes roll": "needs a cluster; prints phases",
    "lab kubernetes run": "needs a cluster; prints phases",
    "lab kubernetes status": "needs a cluster; its table is laid out as all are",
    "lab kubernetes up": "starts a cluster; prints lines",
    "lab rates": "makes a lab; prints phases",
    "lab run": "makes a lab; prints phases",
    "lab soak": "makes a lab; prints counts",
    "lab status": "needs a lab; its table is laid out as all are",
    "lab up": "makes a lab; prints a line",
    "lab vm break": "needs servers; prints a line",
    "lab vm doctor": "asks this machine",
    "lab vm down": "prints a line",
    "lab vm exec": "prints what its program prints",
    "lab vm heal": "needs servers; prints a line",
    "lab vm prove": "needs servers; prints phases",
    "lab vm reboot": "needs servers; prints a line",
    "lab vm run": "needs servers; prints phases",
    "lab vm status": "needs servers; its table is laid out as all are",
    "lab vm up": "starts servers; prints a line",
    "status": "needs a cluster; its tables are laid out as all are",
    "uninstall": "needs a cluster; prints lines of text",
    "webhook": "a program that logs",
}
"""Commands of which no invocation here succeeds, and why."""

READ = [words for words, _ in sorted(exit_codes().items()) if "--no-such-option" not in words and "--help" not in words]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished")
    furnish(folder)
    return folder


def printing() -> set[str]:
    """The commands of which an invocation ends with a result: 0 or 1."""
    good = [words.split() for words, status in exit_codes().items() if status in {0, 1} and "--help" not in words]
    paths = [context.command_path.split()[1:] for context in tree()]
    longest = (max((path for path in paths if words[: len(path)] == path), key=len) for words in good)
    return {" ".join(path) for path in longest}


def test_every_command_is_tried_or_says_why_not() -> None:
    leaves = {
        " ".join(context.command_path.split()[1:]) for context in tree() if not isinstance(context.command, click.Group)
    }
    assert leaves - printing() == set(UNREAD)


@pytest.mark.parametrize("invocation", READ)
def test_no_width_cuts_a_word_and_no_style_goes_where_none_is_wanted(furnished: Path, invocation: str) -> None:
    words = shlex.split(invocation)
    whole = in_pipe(words, furnished)
    assert "Traceback" not in whole.output
    assert "\x1b" not in whole.output
    for columns in WIDTHS:
        shown = on_terminal(words, furnished, columns, {"NO_COLOR": "1", "FORCE_COLOR": "1"})
        assert shown.status == whole.status
        assert "…" not in shown.output
        assert "\x1b" not in shown.output
        assert set(whole.output.split()) - set(shown.output.split()) == set(), f"cut at {columns} columns"


@pytest.mark.parametrize("words", ["lint twice.yaml", "stacks spiderpool", "plan -f examples/point-to-point.yaml"])
def test_a_terminal_gets_styles_and_a_pipe_that_is_asked_to(furnished: Path, words: str) -> None:
    assert "\x1b[1m" in on_terminal(words.split(), furnished, 80).output
    assert "\x1b[1m" in in_pipe(words.split(), furnished, {"FORCE_COLOR": "1"}).output
    assert "\x1b" not in on_terminal(words.split(), furnished, 80, {"TERM": "dumb"}).output
    assert "\x1b" in on_terminal(words.split(), furnished, 80, {"NO_COLOR": ""}).output


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_is_said_of_a_stack_is_folded_between_words(furnished: Path, columns: int) -> None:
    shown = on_terminal(["stacks", "network-operator-sriov"], furnished, columns, {"TERM": "dumb"})
    *lines, render = shown.output.splitlines()
    assert max(map(len, lines)) <= columns
    assert render.startswith("Render it: ")
