"""The rules' checks, a module for each family; the text of each rule stands in `rulebook/FAMILY.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Hit
from trackbed.lint.rules import (
    attach,
    cni,
    documents,
    exclusions,
    names,
    nccl,
    nvipam,
    overlaps,
    pods,
    quota,
    ranges,
    spiderpool,
    sriov,
    whereabouts,
)

Check = Callable[[Corpus], Iterator[Hit]]

CHECKS: tuple[Check, ...] = (
    *documents.CHECKS,
    *ranges.CHECKS,
    *overlaps.CHECKS,
    *nvipam.CHECKS,
    *exclusions.CHECKS,
    *whereabouts.CHECKS,
    *names.CHECKS,
    *attach.CHECKS,
    *cni.CHECKS,
    *sriov.CHECKS,
    *spiderpool.CHECKS,
    *pods.CHECKS,
    *nccl.CHECKS,
    *quota.CHECKS,
)
"""Every check; one may find breaches of several rules of its family."""
