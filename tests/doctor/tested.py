"""The faults that the tests of doctor put into a sound host and see named first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from trackbed_lab.faults import FAULTS as LAB_FAULTS

from trackbed.doctor.catalogue import load_catalogue


@cache
def list_tested_faults() -> frozenset[str]:
    """The ids in the tables FAULTS of the tests, and those that a lab of namespaces breaks."""
    modules = (
        import_module(f"tests.doctor.host.{path.stem}") for path in (Path(__file__).parent / "host").glob("test_*.py")
    )
    tables = [vars(module).get("FAULTS", ()) for module in modules]
    return frozenset({*LAB_FAULTS, *(text for text in _iter_texts(tables) if text in load_catalogue())})


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _iter_texts([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _iter_texts(item)
