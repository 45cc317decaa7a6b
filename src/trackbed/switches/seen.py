"""What a switch does with a port, as its configuration says: the same values whatever it runs.

UnreadableError     a configuration that is neither of the two kinds, or broken
"""

from __future__ import annotations

import msgspec

from trackbed.fabric.model.ranges import parse_address, text


class UnreadableError(ValueError):
    """A configuration that cannot be read; the message says what is wrong with it."""


class Treatment(msgspec.Struct, frozen=True):
    """How packets of one DSCP are treated on one port."""

    priority: int
    """Priority that pause frames for them carry: the switch's priority group."""
    lossless: bool
    """Whether PFC is on for that priority, and such a pause frame would hold back their queue."""
    ecn: bool
    """Whether their queue marks instead of dropping."""
    strict: bool
    """Whether their queue is served before others."""


class SeenPort(msgspec.Struct, frozen=True):
    """One port; `vlan` is the untagged VLAN it bridges, 0 for none."""

    mtu_bytes: int
    addresses: frozenset[str]
    vlan: int
    rdma: Treatment
    cnp: Treatment


def canonical(address: str) -> str:
    """An address/prefix in one spelling; the text as it is where it is none."""
    head, slash, tail = address.partition("/")
    try:
        return text(*parse_address(head)) + slash + tail
    except ValueError:
        return address


def number(value: object, otherwise: int) -> int:
    """A decimal number of up to nine digits, or `otherwise`."""
    written = str(value)
    return int(written) if written.isascii() and written.isdigit() and len(written) < 10 else otherwise  # noqa: PLR2004 - what the docstring says
