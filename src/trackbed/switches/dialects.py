"""The registry of dialects. Each network operating system has a module or package in this folder, with `DIALECT`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `trackbed render --help` lists names only
    from trackbed.switches.dialect import Dialect

MODULES = (
    "sonic",
    "nvue",
)
"""Names of the dialects in the order in which they are tried for a configuration; nvue accepts any."""


def load_dialect(name: str) -> Dialect:
    """Return the dialect with this name."""
    dialect: Dialect = import_module(f"trackbed.switches.{name}").DIALECT
    return dialect


def detect_dialect(raw: bytes) -> Dialect:
    """Return the dialect in which a configuration is written."""
    return next(dialect for dialect in map(load_dialect, MODULES) if dialect.recognizes(raw))
