"""The families of rules: checks here, the text of each rule in `rulebook/FAMILY.yaml`. Adding one is a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Hit

Check = Callable[[Corpus], Iterator[Hit]]

FAMILIES: dict[str, tuple[str, ...]] = {
    "schema": (),  # `schemas.check` finds these
    "documents": ("documents",),
    "ranges": ("ranges", "overlaps"),
    "nvipam": ("nvipam", "exclusions"),
    "whereabouts": ("whereabouts",),
    "names": ("names",),
    "attach": ("attach",),
    "cni": ("cni",),
    "sriov": ("sriov",),
    "spiderpool": ("spiderpool",),
    "pods": ("pods",),
    "nccl": ("nccl",),
    "quota": ("quota",),
}
"""Name of a family -> its modules here, each with `CHECKS`; in the order of the reference."""


def _load_checks(module: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = import_module(f"{__name__}.{module}").CHECKS
    return checks


CHECKS = tuple(check for modules in FAMILIES.values() for module in modules for check in _load_checks(module))
"""Every check; one may find breaches of several rules of its family."""
