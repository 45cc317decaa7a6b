"""Checks, one module a step, in the order of the chain. Each module offers `check(view) -> Iterator[Finding]`, pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.verify.checks import addresses, cni, fabric, names, neighbours, pod, routing, tables, vfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trackbed.verify.finding import Finding
    from trackbed.verify.view import View

CHECKS: tuple[Callable[[View], Iterator[Finding]], ...] = (
    vfs.check,
    names.check,
    addresses.check,
    neighbours.check,
    tables.check,
    routing.check,
    cni.check,
    pod.check,
    fabric.check,
)
"""In this order doctor walks."""
