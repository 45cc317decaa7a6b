"""SpiderMultusConfig: what its webhook refuses."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.networks import SPIDER_BLOCKS

_INJECT = ("cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject")


def blocks(corpus: Corpus) -> Iterator[Hit]:
    """Settings of another type than cniType."""
    for doc in corpus.of("SpiderMultusConfig"):
        kind = doc.text("spec", "cniType") or "custom"
        own = SPIDER_BLOCKS.get(kind, "customCNI")
        for block in (*SPIDER_BLOCKS.values(), "customCNI"):
            if block != own and doc.get("spec", block) is not None:
                message = f"cniType is {kind}, so {block} may not be set"
                yield Hit("cni-type-block", doc.tree, ("spec", block), message, key=True)
        if doc.get("spec", own) is None and (kind in SPIDER_BLOCKS or kind == "custom"):
            yield Hit("cni-type-block", doc.tree, ("spec",), f"cniType is {kind}, so {own} must be set", key=True)
        yield from _details(doc, own)


def _details(doc: Document, own: str) -> Iterator[Hit]:
    masters = doc.get("spec", own, "master")
    if isinstance(masters, list) and len(masters) > 1 and not doc.text("spec", own, "bond", "name"):
        message = f"{len(masters)} masters need a bond with a name"
        yield Hit("bond-missing", doc.tree, ("spec", own, "master"), message, key=True)
    low, high = doc.get("spec", own, "minTxRateMbps"), doc.get("spec", own, "maxTxRateMbps")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        message = f"minTxRateMbps {low} is above maxTxRateMbps {high}"
        yield Hit("rates-reversed", doc.tree, ("spec", own, "minTxRateMbps"), message)


def injected(corpus: Corpus) -> Iterator[Hit]:
    """Configurations to be injected that lack what the webhook puts into pods."""
    for doc in corpus.of("SpiderMultusConfig"):
        annotations = doc.mapping("metadata", "annotations")
        kind = doc.text("spec", "cniType") or "custom"
        own = SPIDER_BLOCKS.get(kind, "")
        pools = doc.get("spec", own, "ippools") or doc.get("spec", "ippools")
        name = next((name for name in _INJECT if name in annotations), "")
        if not name:
            continue
        lacks = [] if pools else ["ippools"]
        if name == _INJECT[0] and not (
            doc.get("spec", own, "resourceName") or doc.get("spec", own, "rdmaResourceName")
        ):
            lacks.append("a resource name")
        if kind in {"ovs", "custom"} or lacks:
            why = (
                f"cniType {kind} cannot be injected" if kind in {"ovs", "custom"} else f"it lacks {' and '.join(lacks)}"
            )
            yield Hit("inject-incomplete", doc.tree, ("metadata", "annotations", name), why, key=True)


CHECKS = (blocks, injected)
