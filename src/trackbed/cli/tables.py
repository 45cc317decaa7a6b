"""Tables: rich on a terminal, aligned plain text elsewhere and for many rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_RICH_ROWS = 300
"""Limit of rows for rich, which takes 0.35 ms a row."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table."""
    if sys.stdout.isatty() and len(rows) <= MAX_RICH_ROWS:
        _print_rich(columns, rows, title)
    else:
        _print_plain(columns, rows)


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rich_table = Table(title=title or None, box=None, header_style="bold", title_justify="left", pad_edge=False)
    for column in columns:
        rich_table.add_column(column)
    for row in rows:
        rich_table.add_row(*(Text(cell) for cell in row))
    Console().print(rich_table)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.echo(line)
