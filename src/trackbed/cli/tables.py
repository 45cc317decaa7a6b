"""Tables: in the width of a terminal, each row on a line of its own elsewhere; no value is ever cut."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from trackbed.cli.table_layout import lay_out
from trackbed.cli.terminal import escape_line, print_styled

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; a terminal gets the title too."""
    is_terminal = sys.stdout.isatty()
    cells = [[escape_line(cell) for cell in row] for row in rows]
    lines = [
        click.style(line, bold=True) if is_heading else line
        for line, is_heading in lay_out(columns, cells, shutil.get_terminal_size().columns if is_terminal else None)
    ]
    if title and is_terminal:
        lines.insert(0, escape_line(title))
    print_styled("\n".join(lines))
