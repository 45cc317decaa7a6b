"""Bounds of the numbers of a Fabric and of a plan, both ends included; hosts check a plan with them, too."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """The lowest and the highest permitted number."""

    low: int
    high: int


MAX_RAILS = 64
"""Two NICs with two ports for each of 16 GPUs; a higher number is a typing error."""

MTU = Bounds(1280, 65535)
"""Bytes; IPv6 needs 1280 (RFC 8200)."""
TABLE_BASE = Bounds(256, 4_000_000_000)
"""Routing tables; 0 to 255 belong to the kernel and the distribution."""
RULE_PRIORITY = Bounds(2, 32_000)
"""Priorities of routing rules; the table main has 32766."""
DSCP = Bounds(0, 63)
PRIORITY = Bounds(0, 7)
VFS = Bounds(0, 256)
HOST_VFS = 4096
"""VFs of all ports of a host; each takes a few ms to set up and lines of the boot script."""
HUGE_PAGES = Bounds(1, 1_000_000)
NODES_PER_UNIT = Bounds(1, 4096)
GPUS = Bounds(1, 64)
SPINES = Bounds(1, 1024)
SPINE_LINKS = Bounds(1, 64)
"""Parallel links between a leaf and a spine."""
LINK_GBPS = Bounds(1, 6400)
"""The fastest Ethernet port of a switch has 1600 Gb/s; a higher number than this is a typing error."""
LEAST_PORT_GBPS = 0.001
"""Emulated ports are slow; the most is that of a link."""
UNITS_PER_POD = Bounds(1, 4096)
POD_ADDRESSES = Bounds(0, 65535)
PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""RDMA path MTUs in bytes (IBTA 9.2.8)."""
HUGE_PAGE_KIB = {"2M": 2 << 10, "1G": 1 << 20}
"""Size of a huge page -> KiB."""
ARGUMENT_CHARACTERS = 1024
"""Longest list of CPUs, and all further kernel arguments together: COMMAND_LINE_SIZE of x86 and arm64 is 2048."""
