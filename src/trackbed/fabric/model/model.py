"""Base of the Fabric's models: strict, camelCase keys, and scalar types with their own errors.

Errors have a stable code (the pydantic error type); `messages` translates those of pydantic itself.
"""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trackbed.fabric.model.ranges import V4, Range, parse_address, parse_range

IFNAMSIZ_BYTES = 15
"""Longest interface name: IFNAMSIZ of include/uapi/linux/if.h is 16 with the terminating NUL."""


class FabricModel(BaseModel):
    """A strict, immutable section of the Fabric file; attribute docstrings become its reference."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_default=True,
    )


def make_error(code: str, message: str, /, **context: Any) -> PydanticCustomError:  # noqa: ANN401 - any value may be shown
    """Return the error that pydantic collects: a stable code and the complete message."""
    return PydanticCustomError(code, "{message}", {"message": message, **context})


def _build_range_validator(version: int) -> PlainValidator:
    def check(value: object) -> Range:
        if isinstance(value, Range):
            return value
        try:
            parsed = parse_range(str(value))
        except ValueError as error:
            raise _make_range_error(str(value), str(error), version) from error
        if parsed.version != version:
            raise make_error("wrong-ip-version", f"{value} is IPv{parsed.version}; this field wants IPv{version}")
        return parsed

    return PlainValidator(check)


def _make_range_error(value: str, reason: str, version: int) -> PydanticCustomError:
    example = "10.0.0.0/16" if version == V4 else "fd00:10::/40"
    if reason.startswith("host bits:"):
        return make_error("host-bits", f"{value} has host bits set, write {reason.removeprefix('host bits:')}")
    return make_error("bad-range", f"{value!r} is no IPv{version} range ({reason}), write for example {example}")


def _build_address_validator(version: int) -> BeforeValidator:
    def check(value: object) -> int:
        if isinstance(value, int):
            return value
        try:
            parsed_version, address = parse_address(str(value))
        except ValueError as error:
            raise make_error("bad-address", f"{value!r} is no IPv{version} address") from error
        if parsed_version != version:
            raise make_error("wrong-ip-version", f"{value} is IPv{parsed_version}; this field wants IPv{version}")
        return address

    return BeforeValidator(check)


def check_interface_name(value: str) -> str:
    """Return a name that the kernel accepts (dev_valid_name in net/core/dev.c, 15 bytes), else raise an error."""
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


def _normalize_mac(value: object) -> object:
    return re.sub(r"-", ":", value).lower() if isinstance(value, str) else value


MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
"""An Ethernet address, lower case."""
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
"""A PCI address with its domain, as under /sys/bus/pci/devices."""


def _build_pattern_validator(pattern: re.Pattern[str], code: str, hint: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise make_error(code, f"{value!r} {hint}")
        return value

    return BeforeValidator(check)


def build_text_schema(
    *rules: tuple[str, str], longest: int | None = None, pattern: str | None = None
) -> WithJsonSchema:
    """Return the schema of a scalar that is text in a custom resource; rules are (CEL expression, message)."""
    checks = [{"rule": rule, "message": message} for rule, message in rules]
    parts = {"maxLength": longest, "pattern": pattern, "x-kubernetes-validations": checks or None}
    return WithJsonSchema({"type": "string", **{key: value for key, value in parts.items() if value is not None}})


ANYTHING = WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
"""A field of several types, which a structural schema cannot describe."""
NUMBER_OR_TEXT = WithJsonSchema({"x-kubernetes-int-or-string": True})


def _build_range_schema(version: int) -> WithJsonSchema:
    example = "10.0.0.0/16" if version == V4 else "fd00:10::/40"
    is_range = f"isCIDR(self) && cidr(self).ip().family() == {version}"
    return build_text_schema(
        (is_range, f"write an IPv{version} range, for example {example}"),
        (
            f"!({is_range}) || cidr(self) == cidr(self).masked()",
            "host bits are set: write the first address of the range",
        ),
        longest=_RANGE_CHARACTERS,
    )


def _build_address_schema(version: int) -> WithJsonSchema:
    rule = f"isIP(self) && ip(self).family() == {version}"
    return build_text_schema((rule, f"write an IPv{version} address"), longest=_RANGE_CHARACTERS)


_RANGE_CHARACTERS = 43
"""Length of the longest IPv6 address, a slash and three digits."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

RangeV4 = Annotated[Range, _build_range_validator(4), PlainSerializer(str), _build_range_schema(4)]
RangeV6 = Annotated[Range, _build_range_validator(6), PlainSerializer(str), _build_range_schema(6)]
AddressV4 = Annotated[int, _build_address_validator(4), _build_address_schema(4)]
AddressV6 = Annotated[int, _build_address_validator(6), _build_address_schema(6)]
InterfaceName = Annotated[
    str,
    BeforeValidator(lambda v: check_interface_name(str(v))),
    build_text_schema(longest=IFNAMSIZ_BYTES, pattern=r"^[^\s/:]+$"),
]
Mac = Annotated[
    str,
    _build_pattern_validator(MAC, "bad-mac", "is no MAC address, write for example b8:3f:d2:00:00:01"),
    BeforeValidator(_normalize_mac),
]
Pci = Annotated[
    str,
    _build_pattern_validator(PCI, "bad-pci", "is no PCI address, write for example 0000:3b:00.0"),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
PciId = Annotated[
    str,
    _build_pattern_validator(
        re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}"), "bad-pci-id", "is no PCI id, write vendor:device as in 15b3:1021"
    ),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
DnsLabel = Annotated[
    str,
    _build_pattern_validator(
        DNS_LABEL, "bad-label", "is no DNS label: lower case letters, digits and '-', at most 63 (RFC 1123)"
    ),
    build_text_schema(longest=63, pattern=f"^{DNS_LABEL.pattern}$"),
]
