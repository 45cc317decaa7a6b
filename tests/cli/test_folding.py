"""Prose is broken between words: nothing is lost, nothing is wider than it must be, and commands stay whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.invocations import in_pipe, on_terminal
from trackbed.cli.folding import fold_line

FIX = "  fix: Look at the port with `lspci -k -s 18:00.0`, then at `dmesg`."
WORDS = st.lists(st.text("ab-", min_size=1, max_size=12), max_size=12)
TOPICS = ["bios-acs-redirect-on", "vf-not-passed", "spec.uplinks", "input-unreadable"]


@pytest.mark.parametrize(
    ("width", "parts"),
    [
        (80, [FIX]),
        (68, [FIX]),
        (67, ["  fix: Look at the port with `lspci -k -s 18:00.0`, then at", "       `dmesg`."]),
        (30, ["  fix: Look at the port with", "       `lspci -k -s 18:00.0`,", "       then at `dmesg`."]),
        (
            20,
            [
                "  fix: Look at the",
                "       port with",
                "       `lspci -k -s 18:00.0`,",
                "       then at",
                "       `dmesg`.",
            ],
        ),
    ],
)
def test_a_line_breaks_between_words_and_not_within_a_command(width: int, parts: list[str]) -> None:
    assert fold_line(FIX, width, 7).splitlines() == parts


@given(WORDS, st.integers(0, 40), st.integers(0, 8))
def test_words_are_kept_and_a_line_is_wide_only_for_one_word(words: list[str], width: int, hanging: int) -> None:
    line = " ".join(words)
    parts = fold_line(line, width, hanging).split("\n")
    assert " ".join(part.strip() for part in parts) == line
    for number, part in enumerate(parts):
        indent = hanging if number else 0
        assert part[:indent].isspace() or not indent
        assert len(part) <= width or " " not in part[indent:]
    for before, after in pairwise(parts):
        assert len(before) + 1 + len(after.split()[0]) > width


def test_styles_take_no_width() -> None:
    line = f"  {click.style('fail   ', fg='red', bold=True)} addr-missing  no address"
    assert fold_line(line, 34, 10) == line
    assert click.unstyle(fold_line(line, 33, 10)) == "  fail    addr-missing  no\n          address"


@pytest.mark.needs("processes")
@pytest.mark.parametrize("topic", TOPICS)
def test_an_explanation_is_as_wide_as_the_terminal_and_whole_in_a_pipe(tmp_path: Path, topic: str) -> None:
    whole = in_pipe(["explain", topic], tmp_path).output
    shown = on_terminal(["explain", topic], tmp_path, 60).output
    assert max(map(len, whole.splitlines())) > 60
    assert shown.split() == whole.split()
    assert max(len(line) for line in shown.splitlines() if not line.startswith("  message: ")) <= 60
