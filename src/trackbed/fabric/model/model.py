"""What every model of the Fabric file shares: strictness, camelCase keys, and the scalar types with their own errors.

Errors carry a stable code (the pydantic error type); `messages` turns them into text for people.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trackbed.fabric.model.ranges import V4, Range, parse_address, parse_range

IFNAMSIZ_BYTES = 15
"""Longest interface name: IFNAMSIZ of include/uapi/linux/if.h is 16 with the closing NUL."""


class FabricModel(BaseModel):
    """A strict, frozen piece of the Fabric file; keys are camelCase, attribute docstrings are the reference."""

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,  # Range is a msgspec struct
        frozen=True,
        alias_generator=to_camel,
        validate_default=True,
    )


def make_error(code: str, message: str, /, **context: Any) -> PydanticCustomError:  # noqa: ANN401 - any value may be shown
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
            raise make_error("wrong-ip-version", f"{value} is IPv{found.version}; this field wants IPv{version}")
        return found

    return BeforeValidator(check)


def _bad_range(value: str, reason: str, version: int) -> PydanticCustomError:
    example = "10.0.0.0/16" if version == V4 else "fd00:10::/40"
    if reason.startswith("host bits:"):
        return make_error("host-bits", f"{value} has host bits set, write {reason.removeprefix('host bits:')}")
    return make_error("bad-range", f"{value!r} is no IPv{version} range ({reason}), write for example {example}")


def _address_of(version: int) -> BeforeValidator:
    def check(value: object) -> int:
        if isinstance(value, int):
            return value
        try:
            found, address = parse_address(str(value))
        except ValueError as error:
            raise make_error("bad-address", f"{value!r} is no IPv{version} address") from error
        if found != version:
            raise make_error("wrong-ip-version", f"{value} is IPv{found}; this field wants IPv{version}")
        return address

    return BeforeValidator(check)


def check_interface_name(value: str) -> str:
    """Accept a name that the kernel accepts (dev_valid_name in net/core/dev.c), at most 15 bytes."""
    length = len(value.encode())
    if length > IFNAMSIZ_BYTES:
        raise make_error(
            "name-too-long", f"interface name {value!r} has {length} bytes, the kernel allows {IFNAMSIZ_BYTES}"
        )
    if value in {"", ".", ".."} or re.search(r"[\s/:]", value):
        raise make_error(
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
            raise make_error(code, f"{value!r} {hint}")
        return value

    return BeforeValidator(check)


def build_text_schema(
    *rules: tuple[str, str], longest: int | None = None, pattern: str | None = None
) -> WithJsonSchema:
    """How a custom resource's schema describes a scalar that is text: rules are (CEL expression, message)."""
    checks = [{"rule": rule, "message": message} for rule, message in rules]
    parts = {"maxLength": longest, "pattern": pattern, "x-kubernetes-validations": checks or None}
    return WithJsonSchema({"type": "string", **{key: value for key, value in parts.items() if value is not None}})


ANYTHING = WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
"""A field that may be of several types, which a structural schema cannot say."""
NUMBER_OR_TEXT = WithJsonSchema({"x-kubernetes-int-or-string": True})


def _range_schema(version: int) -> WithJsonSchema:
    example = "10.0.0.0/16" if version == V4 else "fd00:10::/40"
    is_one = f"isCIDR(self) && cidr(self).ip().family() == {version}"
    return build_text_schema(
        (is_one, f"write an IPv{version} range, for example {example}"),
        (
            f"!({is_one}) || cidr(self) == cidr(self).masked()",
            "host bits are set: write the first address of the range",
        ),
        longest=_RANGE_CHARACTERS,
    )


def _address_schema(version: int) -> WithJsonSchema:
    rule = f"isIP(self) && ip(self).family() == {version}"
    return build_text_schema((rule, f"write an IPv{version} address"), longest=_RANGE_CHARACTERS)


_RANGE_CHARACTERS = 43
"""The longest IPv6 address, a slash, three digits."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

RangeV4 = Annotated[Range, _range_of(4), PlainSerializer(str), _range_schema(4)]
RangeV6 = Annotated[Range, _range_of(6), PlainSerializer(str), _range_schema(6)]
AddressV4 = Annotated[int, _address_of(4), _address_schema(4)]
AddressV6 = Annotated[int, _address_of(6), _address_schema(6)]
InterfaceName = Annotated[
    str,
    BeforeValidator(lambda v: check_interface_name(str(v))),
    build_text_schema(longest=IFNAMSIZ_BYTES, pattern=r"^[^\s/:]+$"),
]
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
    str,
    _pattern(DNS_LABEL, "bad-label", "is no DNS label: lower case letters, digits and '-', at most 63 (RFC 1123)"),
    build_text_schema(longest=63, pattern=f"^{DNS_LABEL.pattern}$"),
]
