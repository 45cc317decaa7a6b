"""MAC address and GUID of a virtual function, derived from the node's slot, the rail and the VF's number.

    MAC    0e:7d:SS:SS:SS:SS   SSSSSSSS: slot (18 bits), rail (6 bits), VF (8 bits); locally administered, unicast
    GUID   the MAC with ff:fe in its middle, as mlx5 derives the GUID of a RoCE device (EUI-64 without the inverted bit)

Slots are permanent, so both stay the same over reboots and other nodes. They are unique in a Fabric, and differ from
those of macvlans (0e:7b, 0e:7c). Two Fabrics whose rails are one layer-2 network or InfiniBand subnet need different
slots.
"""

from __future__ import annotations

_PREFIX = 0x0E7D
_SLOT_BITS, _RAIL_BITS, _VF_BITS = 18, 6, 8
"""A Fabric has at most 100,000 nodes, 64 rails and 256 VFs of a port."""
MAX_SLOT = (1 << _SLOT_BITS) - 1
"""Highest slot whose VFs have a MAC address of their own."""


def derive_vf_mac(slot: int, rail: int, vf: int) -> str:
    """Return the MAC address of a VF. Raises ValueError for a slot, rail or VF number that is too large."""
    return _derive_bytes(slot, rail, vf).hex(":")


def derive_vf_guid(slot: int, rail: int, vf: int) -> str:
    """Return the GUID of a VF's node and port in the format of sysfs. Raises ValueError as `derive_vf_mac`."""
    mac = _derive_bytes(slot, rail, vf)
    return (mac[:3] + b"\xff\xfe" + mac[3:]).hex(":", 2)


def _derive_bytes(slot: int, rail: int, vf: int) -> bytes:
    number = _PREFIX
    for name, value, bits in (("slot", slot, _SLOT_BITS), ("rail", rail, _RAIL_BITS), ("VF", vf, _VF_BITS)):
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{name} {value} has no MAC address of its own: {name}s are 0 to {(1 << bits) - 1}")
        number = number << bits | value
    return number.to_bytes(6, "big")
