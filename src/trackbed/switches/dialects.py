"""The registry of dialects: a folder or module with `DIALECT` for each network operating system, and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `trackbed render --help` lists names only
    from trackbed.switches.dialect import Dialect

DIALECTS = (
    "sonic",
    "nvue",
)
"""Names of the dialects in the order in which a configuration is tried; nvue takes what no other does."""


def load_dialect(name: str) -> Dialect:
    """Return the dialect of that name."""
    dialect: Dialect = import_module(f"trackbed.switches.{name}").DIALECT
    return dialect


def detect_dialect(raw: bytes) -> Dialect:
    """Return the dialect of a configuration."""
    return next(dialect for dialect in map(load_dialect, DIALECTS) if dialect.is_written(raw))
