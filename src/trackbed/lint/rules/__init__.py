"""The families of rules. The checks are in this folder, the texts of the rules in `rulebook/FAMILY.yaml`."""

from collections.abc import Callable, Iterator
from importlib import import_module

from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach

Check = Callable[[Corpus], Iterator[Breach]]


FAMILIES: dict[str, str] = {
    "schema": "Schemas",  # its check is in `schemas.check`
    "documents": "Objects",
    "ranges": "Ranges, gateways, routes",
    "nvipam": "Pools of nv-ipam",
    "whereabouts": "Whereabouts",
    "names": "References between objects",
    "attach": "Network annotations of pods",
    "cni": "CNI configurations",
    "sriov": "SR-IOV and Network Operator",
    "spiderpool": "SpiderMultusConfig",
    "pods": "Containers",
    "dra": "Dynamic resource allocation",
    "nccl": "NCCL and MPI",
    "quota": "Kueue",
    "fabric": "Fabrics",
}
"""Title by family, in the order of the reference. A family has a file in `rulebook/` and a module in this package."""


def _load_checks(family: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = import_module(f"{__name__}.{family}").CHECKS
    return checks


CHECKS = tuple(check for family in FAMILIES if family != "schema" for check in _load_checks(family))
"""Every check. A check may report breaches of several rules of its family."""
