"""Check for objects that are too large for etcd, before they are applied.

etcd refuses requests over 1.5 MiB (`--max-request-bytes`, 1572864 by default). An address pool that lists nodes grows
with each node by an entry, and by the status that its controller writes.
"""

import msgspec

from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.model.problems import Problem

MAX_REQUEST_BYTES = 1_572_864
"""Size in bytes of the largest request that etcd accepts by default."""


def check_object_size(manifest: Manifest, entry_count: int, status_bytes_per_entry: int, remedy: str) -> Problem | None:
    """Return a problem if an object is too large for etcd with the status of all its entries, else None.

    `remedy` is the end of the message.
    """
    size = len(msgspec.json.encode(manifest)) + entry_count * status_bytes_per_entry
    if size <= MAX_REQUEST_BYTES:
        return None
    max_entries = entry_count * MAX_REQUEST_BYTES // size
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    return Problem(
        "object-too-large",
        f"{kind} {name!r} with {entry_count} entries would take {size / 1e6:.1f} MB with its status; etcd takes "
        f"{MAX_REQUEST_BYTES / 1e6:.1f} MB, which is {max_entries} entries: {remedy}",
        ("spec", "nodes"),
    )
