"""The settings of a switch port, independent of the network operating system."""

import msgspec

from trackbed.fabric.model.ranges import format_address, parse_address

_MAX_DIGITS = 9


class UnreadableError(ValueError):
    """A configuration that cannot be read; the message has the reason, `line` its place from 1, or 0 for the whole."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class Treatment(msgspec.Struct, frozen=True):
    """The treatment of packets with one DSCP on one port."""

    priority: int
    """Priority in the pause frames for these packets: the switch's priority group."""
    lossless: bool
    """Whether PFC is on for that priority, and its pause frames hold back the packets' queue."""
    ecn: bool
    """Whether the packets' queue marks packets instead of dropping them."""
    strict: bool
    """Whether the packets' queue has strict priority."""


class PortConfig(msgspec.Struct, frozen=True):
    """The settings of one port; `vlan` is the untagged VLAN that it bridges, 0 if there is none."""

    mtu_bytes: int
    addresses: frozenset[str]
    vlan: int
    rdma: Treatment
    cnp: Treatment


def normalize_address(address: str) -> str:
    """Return the canonical form of address/prefix; text that is not an address is returned unchanged."""
    head, slash, tail = address.partition("/")
    try:
        return format_address(*parse_address(head)) + slash + tail
    except ValueError:
        return address


def parse_number(value: object, default: int) -> int:
    """Parse a decimal number of up to nine digits; return the default for anything else."""
    digits = str(value)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else default
