"""Base of the Fabric's models: strict, camelCase keys, and scalar types with their own errors.

Errors have a stable code (the pydantic error type); `messages` translates those of pydantic itself.
"""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from trackbed.fabric.model.ranges import V4, Range, parse_address, parse_range
from trackbed.fabric.text_syntax import (
    DNS_LABEL,
    EXTENDED_RESOURCE,
    IFNAMSIZ_BYTES,
    IMAGE,
    PCI,
    PCI_ID,
    PORT_MAC,
    explain_bad_interface_name,
)


class FabricModel(BaseModel):
    """A strict, immutable section of the Fabric file; attribute docstrings become its reference."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_default=True,
    )


def make_error(code: str, message: str, /, **context: Any) -> PydanticCustomError:  # noqa: ANN401 - any value may be shown
    """Return an error for pydantic to collect, with a stable code and the complete message."""
    return PydanticCustomError(code, "{message}", {"message": message, **context})


_RESERVED_RANGES = tuple(
    map(
        parse_range,
        ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8"),
    )
)
"""This host, loopback, groups, link-local (RFC 6890, RFC 4291): the kernel refuses these, or gives them by itself."""


def _build_range_validator(ip_version: int) -> PlainValidator:
    def check(value: object) -> Range:
        if isinstance(value, Range):
            return value
        try:
            parsed = parse_range(str(value))
        except ValueError as error:
            raise _build_range_error(str(value), str(error), ip_version) from error
        if parsed.version != ip_version:
            raise make_error("wrong-ip-version", f"{value} is IPv{parsed.version}; this field wants IPv{ip_version}")
        if reserved := next((reserved for reserved in _RESERVED_RANGES if reserved.overlaps(parsed)), None):
            raise make_error("reserved-range", f"{value} contains addresses of {reserved}, which no port can have")
        return parsed

    return PlainValidator(check)


def _build_range_error(value: str, reason: str, ip_version: int) -> PydanticCustomError:
    example = "10.0.0.0/16" if ip_version == V4 else "fd00:10::/40"
    if reason.startswith("host bits:"):
        return make_error("host-bits", f"{value} has host bits set, write {reason.removeprefix('host bits:')}")
    return make_error("bad-range", f"{value!r} is no IPv{ip_version} range ({reason}), write for example {example}")


def _build_address_validator(ip_version: int) -> BeforeValidator:
    def check(value: object) -> int:
        if isinstance(value, int):
            return value
        try:
            parsed_version, address = parse_address(str(value))
        except ValueError as error:
            raise make_error("bad-address", f"{value!r} is no IPv{ip_version} address") from error
        if parsed_version != ip_version:
            raise make_error("wrong-ip-version", f"{value} is IPv{parsed_version}; this field wants IPv{ip_version}")
        return address

    return BeforeValidator(check)


def check_interface_name(value: str) -> str:
    """Return an interface name that is one for the kernel and for all tools, else raise pydantic's error."""
    if reason := explain_bad_interface_name(value):
        raise make_error(*reason)
    return value


def _normalize_mac(value: object) -> object:
    return re.sub(r"-", ":", value).lower() if isinstance(value, str) else value


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


def _build_range_schema(ip_version: int) -> WithJsonSchema:
    example = "10.0.0.0/16" if ip_version == V4 else "fd00:10::/40"
    is_range = f"isCIDR(self) && cidr(self).ip().family() == {ip_version}"
    return build_text_schema(
        (is_range, f"write an IPv{ip_version} range, for example {example}"),
        (
            f"!({is_range}) || cidr(self) == cidr(self).masked()",
            "host bits are set: write the first address of the range",
        ),
        longest=_RANGE_CHARACTERS,
    )


def _build_address_schema(ip_version: int) -> WithJsonSchema:
    rule = f"isIP(self) && ip(self).family() == {ip_version}"
    return build_text_schema((rule, f"write an IPv{ip_version} address"), longest=_RANGE_CHARACTERS)


_RANGE_CHARACTERS = 43
"""Length of the longest IPv6 address, a slash and three digits."""
_IMAGE_CHARACTERS = 512
_RESOURCE_CHARACTERS = 253 + 1 + 63
"""A DNS subdomain, a slash and a name (Kubernetes: a qualified name)."""

RangeV4 = Annotated[Range, _build_range_validator(4), PlainSerializer(str), _build_range_schema(4)]
RangeV6 = Annotated[Range, _build_range_validator(6), PlainSerializer(str), _build_range_schema(6)]
AddressV4 = Annotated[int, _build_address_validator(4), _build_address_schema(4)]
AddressV6 = Annotated[int, _build_address_validator(6), _build_address_schema(6)]
InterfaceName = Annotated[
    str,
    BeforeValidator(lambda v: check_interface_name(str(v))),
    build_text_schema(longest=IFNAMSIZ_BYTES, pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
]
Mac = Annotated[
    str,
    _build_pattern_validator(PORT_MAC, "bad-mac", "is no MAC address of a port, write for example b8:3f:d2:00:00:01"),
    BeforeValidator(_normalize_mac),
]
Pci = Annotated[
    str,
    _build_pattern_validator(PCI, "bad-pci", "is no PCI address, write for example 0000:3b:00.0"),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
PciId = Annotated[
    str,
    _build_pattern_validator(PCI_ID, "bad-pci-id", "is no PCI id, write vendor:device as in 15b3:1021"),
    BeforeValidator(lambda v: v.lower() if isinstance(v, str) else v),
]
DnsLabel = Annotated[
    str,
    _build_pattern_validator(
        DNS_LABEL, "bad-label", "is no DNS label: lower case letters, digits and '-', at most 63 (RFC 1123)"
    ),
    build_text_schema(longest=63, pattern=f"^{DNS_LABEL.pattern}$"),
]
ImageReference = Annotated[
    str,
    _build_pattern_validator(IMAGE, "bad-image", "is no image, write for example registry.example/trackbed/agent:1"),
    build_text_schema(longest=_IMAGE_CHARACTERS, pattern=f"^{IMAGE.pattern}$"),
]
ExtendedResource = Annotated[
    str,
    _build_pattern_validator(
        EXTENDED_RESOURCE, "bad-resource", "is no extended resource, write for example amd.com/gpu"
    ),
    build_text_schema(longest=_RESOURCE_CHARACTERS, pattern=f"^{EXTENDED_RESOURCE.pattern}$"),
]
