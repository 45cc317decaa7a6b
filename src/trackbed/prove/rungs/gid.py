"""Rung gid: the port's RDMA device has a GID of the planned address, and it is of RoCE v2.

Sources: sysfs of the kernel, Documentation/ABI/stable/sysfs-class-infiniband (`gids`, `gid_attrs/types`). On InfiniBand
a GID does not come from an address; any GID but zero is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from trackbed.prove.rungs.rung import PathEnd

_ROCE_V2 = "RoCE v2"
_IPV4_MAPPED = 0xFFFF << 32


class GidReading(NamedTuple):
    """Index of the port's GID, or why it has none; `is_unknown` if the table could not be read."""

    gid_index: int | None
    reason: str = ""
    is_unknown: bool = False


def list_patterns(end: PathEnd) -> list[str]:
    """Return the patterns of the files that `find_gid` needs."""
    port = f"/sys/class/infiniband/{end.rdma}/ports/1"
    return [f"{port}/gids/*", f"{port}/gid_attrs/types/*"]


def find_gid(end: PathEnd, link_type: str, files: Mapping[str, str]) -> GidReading:
    """Return the index of the GID of the planned address; of several, the lowest of RoCE v2."""
    port = f"/sys/class/infiniband/{end.rdma}/ports/1"
    gids = {index: gid for index in range(256) if (gid := _parse_gid(files.get(f"{port}/gids/{index}")))}
    if not any(path.startswith(f"{port}/gids/") for path in files):
        return GidReading(None, f"it has no RDMA device {end.rdma}, or its GIDs cannot be read", is_unknown=True)
    if link_type == "infiniband":
        return GidReading(min(gids)) if gids else GidReading(None, f"{end.rdma} has no GID")
    wanted = int(ip_address(end.address)) | (0 if ":" in end.address else _IPV4_MAPPED)
    indexes = [index for index, gid in gids.items() if gid == wanted]
    chosen = [index for index in indexes if files.get(f"{port}/gid_attrs/types/{index}", "").strip() == _ROCE_V2]
    if chosen:
        return GidReading(chosen[0])
    trouble = f"a GID of {end.address}, but none of {_ROCE_V2}" if indexes else f"no GID of {end.address}"
    return GidReading(None, f"{end.rdma} has {trouble}")


def _parse_gid(text: str | None) -> int:
    """Return a GID as a number; 0 for an empty entry, or text that is none."""
    try:
        return int(ip_address((text or "").strip()))
    except ValueError:
        return 0
