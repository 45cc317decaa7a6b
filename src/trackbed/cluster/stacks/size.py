"""Objects that would not fit in etcd: found by arithmetic before anybody applies them.

etcd refuses requests over 1.5 MiB (`--max-request-bytes`, 1572864 by default). A pool that lists nodes grows twice: by
its entries, and by what its controller writes into its status for each node.
"""

from __future__ import annotations

import msgspec

from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.model.problems import Problem

ETCD_BYTES = 1_572_864
"""Largest request etcd takes by default."""


def too_large(one: Manifest, entries: int, status_bytes_each: int, remedy: str) -> Problem | None:
    """A problem when `one`, with a status of so many bytes for each of its entries, would not fit; says what would."""
    size = len(msgspec.json.encode(one)) + entries * status_bytes_each
    if size <= ETCD_BYTES:
        return None
    fits = entries * ETCD_BYTES // size
    kind, name = one["kind"], one["metadata"]["name"]
    message = (
        f"{kind} {name!r} with {entries} entries would take {size / 1e6:.1f} MB with its status; etcd takes "
        f"{ETCD_BYTES / 1e6:.1f} MB, which is {fits} entries: {remedy}"
    )
    return Problem("object-too-large", message, ("spec", "nodes"))
