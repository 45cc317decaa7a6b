"""What every model of the Fabric file shares: strictness, camelCase keys, and the scalar types with their own errors.

Errors carry a stable code (the pydantic error type); `messages` turns them into text for people.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trackbed.spec.ranges import V4, Range, parse_address, parse_range

IFNAMSIZ_BYTES = 15
"""Longest interface name: IFNAMSIZ of include/uapi/linux/if.h is 16 with the closing NUL."""


class Model(BaseModel):
    """A strict, frozen piece of the Fabric file; keys are camelCase, attribute docstrings are the reference."""

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,  # Range is a msgspec struct
        frozen=True,
        alias_generator=to_camel,
        validate_default=True,
    )


def fail(code: str, message: str, /, **context: Any) -> PydanticCustomError:  # noqa: ANN401 - any value may be shown
    """Make the error that pydantic collects: a stable code and the whole message."""
    return PydanticCustomError(code, "{message}", {"message": message, **context})


def _range_of(version: int) -> BeforeValidator:
    def check(value: object) -> Range:
        if isinstance(value, Range):
            return value
        try:
            found = parse_range(str(value))
        except ValueError as error:
            raise _bad_range(str(value), str(error), version) from error
        if found.version != version:
            raise fail("wrong-ip-version", f"{value} is IPv{found.version}; this field wants IPv{version}")
        return found

    return BeforeValidator(check)


def _bad_range(value: str, reason: str, version: int) -> PydanticCustomError:
    example = "10.0.0.0/16" if version == V4 else "fd00:10::/40"
    if reason.startswith("host bits:"):
        return fail("host-bits", f"{value} has host bits set, write {reason.removeprefix('host bits:')}")
    return fail("bad-range", f"{value!r} is no IPv{version} range ({reason}), write for example {example}")


def _address_of(version: int) -> BeforeValidator:
    def check(value: object) -> int:
        if isinstance(value, int):
            return value
        try:
            found, address = parse_address(str(value))
        except ValueError as error:
            raise fail("bad-address", f"{value!r} is no IPv{version} address") from error
        if found != version:
            raise fail("wrong-ip-version", f"{value} is IPv{found}; this field wants IPv{version}")
        return address

    return BeforeValidator(check)


def interface_name(value: str) -> str:
    """Accept a name that the kernel accepts (dev_valid_name in net/core/dev.c), at most 15 bytes."""
    length = len(value.encode())
    if length > IFNAMSIZ_BYTES:
        raise fail("name-too-long", f"interface name {value!r} has {length} bytes, the kernel allows {IFNAMSIZ_BYTES}")
    if value in {"", ".", ".."} or re.search(r"[\s/:]", value):
        raise fail(
            "bad-name", f"interface name {value!r} is not one the kernel accepts: no blank, '/', ':', '.' or '..'"
        )
    return value


def _normal_mac(value: object) -> object:
    return re.sub(r"-", ":", value).lower() if isinstance(value, str) else value


MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
"""An Ethernet address, lower case."""
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
"""A PCI address with its domain, as under /sys/bus/pci/devices."""


def _pattern(pattern: re.Pattern[str], code: str, hint: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise fail(code, f"{value!r} {hint}")
        return value

    return BeforeValidator(check)


DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

RangeV4 = Annotated[Range, _range_of(4), PlainSerializer(str)]
RangeV6 = Annotated[Range, _range_of(6), PlainSerializer(str)]
AddressV4 = Annotated[int, _address_of(4)]
AddressV6 = Annotated[int, _address_of(6)]
InterfaceName = Annotated[str, BeforeValidator(lambda v: interface_name(str(v)))]
Mac = Annotated[
    str,
    _pattern(MAC, "bad-mac", "is no MAC address, write for example b8:3f:d2:00:00:01"),
    BeforeValidator(_normal_mac),
]
Pci = Annotated[
    str,
    _pattern(PCI, "bad-pci", "is no PCI address, write for example 0000:3b:00.0"),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
PciId = Annotated[
    str,
    _pattern(re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}"), "bad-pci-id", "is no PCI id, write vendor:device as in 15b3:1021"),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
DnsLabel = Annotated[
    str, _pattern(DNS_LABEL, "bad-label", "is no DNS label: lower case letters, digits and '-', at most 63 (RFC 1123)")
]
