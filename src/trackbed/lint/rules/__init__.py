"""The families of rules. Checks are in this folder, the text of each rule in `rulebook/FAMILY.yaml`."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach

Check = Callable[[Corpus], Iterator[Breach]]


class Family(NamedTuple):
    """Rules that belong together."""

    title: str
    """Title in the reference."""
    modules: tuple[str, ...]
    """Modules beside this one, each with `CHECKS`."""


FAMILIES: dict[str, Family] = {
    "schema": Family("Schemas", ()),  # checked by `schemas.check`
    "documents": Family("Objects", ("documents",)),
    "ranges": Family("Ranges, gateways, routes", ("ranges", "overlaps")),
    "nvipam": Family("Pools of nv-ipam", ("nvipam", "exclusions")),
    "whereabouts": Family("Whereabouts", ("whereabouts",)),
    "names": Family("Names that must meet", ("names",)),
    "attach": Family("How pods name their networks", ("attach",)),
    "cni": Family("CNI configurations", ("cni",)),
    "sriov": Family("SR-IOV and Network Operator", ("sriov",)),
    "spiderpool": Family("SpiderMultusConfig", ("spiderpool",)),
    "pods": Family("Containers", ("pods",)),
    "nccl": Family("NCCL and MPI", ("nccl",)),
    "quota": Family("Kueue", ("quota",)),
}
"""Families by name, which is the name of the file in `rulebook/`, in the order of the reference."""


def _load_checks(module: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = import_module(f"{__name__}.{module}").CHECKS
    return checks


CHECKS = tuple(check for family in FAMILIES.values() for module in family.modules for check in _load_checks(module))
"""Every check. A check may report breaches of several rules of its family."""
