"""Rules for SpiderMultusConfig that its webhook enforces."""

from collections.abc import Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import INJECT, Document
from trackbed.lint.finding import Breach
from trackbed.lint.networks import SPIDER_BLOCKS


def check_blocks(corpus: Corpus) -> Iterator[Breach]:
    """Find SpiderMultusConfigs with settings that do not belong to their cniType."""
    for doc in corpus.select_kinds("SpiderMultusConfig"):
        kind = doc.get_text("spec", "cniType") or "custom"
        block_of_type = SPIDER_BLOCKS.get(kind, "customCNI")
        for block in (*SPIDER_BLOCKS.values(), "customCNI"):
            if block != block_of_type and doc.get("spec", block) is not None:
                message = f"cniType is {kind}, so {block} may not be set"
                yield Breach("cni-type-block", doc.tree, ("spec", block), message, key=True)
        if doc.get("spec", block_of_type) is None and (kind in SPIDER_BLOCKS or kind == "custom"):
            yield Breach(
                "cni-type-block", doc.tree, ("spec",), f"cniType is {kind}, so {block_of_type} must be set", key=True
            )
        yield from _check_block(doc, block_of_type)


def _check_block(doc: Document, block: str) -> Iterator[Breach]:
    masters = doc.get("spec", block, "master")
    if isinstance(masters, list) and len(masters) > 1 and not doc.get_text("spec", block, "bond", "name"):
        message = f"{len(masters)} masters need a bond with a name"
        yield Breach("bond-missing", doc.tree, ("spec", block, "master"), message, key=True)
    low, high = doc.get("spec", block, "minTxRateMbps"), doc.get("spec", block, "maxTxRateMbps")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        message = f"minTxRateMbps {low} is above maxTxRateMbps {high}"
        yield Breach("rates-reversed", doc.tree, ("spec", block, "minTxRateMbps"), message)


def check_injection(corpus: Corpus) -> Iterator[Breach]:
    """Find SpiderMultusConfigs for injection that lack pools or a resource."""
    for doc in corpus.select_kinds("SpiderMultusConfig"):
        annotations = doc.get_mapping("metadata", "annotations")
        kind = doc.get_text("spec", "cniType") or "custom"
        block = SPIDER_BLOCKS.get(kind, "")
        pools = doc.get("spec", block, "ippools") or doc.get("spec", "ippools")
        name = next((name for name in INJECT if name in annotations), "")
        if not name:
            continue
        lacks = [] if pools else ["ippools"]
        fields = ("resourceName", "rdmaResourceName")
        if name == INJECT[0] and not any(doc.get("spec", block, field) for field in fields):
            lacks.append("a resource name")
        if kind in {"ovs", "custom"} or lacks:
            lacking = f"it lacks {' and '.join(lacks)}"
            message = f"cniType {kind} cannot be injected" if kind in {"ovs", "custom"} else lacking
            yield Breach("inject-incomplete", doc.tree, ("metadata", "annotations", name), message, key=True)


CHECKS = (check_blocks, check_injection)
