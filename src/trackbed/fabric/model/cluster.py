"""Ranges that the fabric must not overlap, and how pods get rails."""

from typing import Annotated, Literal

from pydantic import PlainSerializer, PlainValidator

from trackbed.fabric.model.model import FabricModel, build_text_schema, make_error
from trackbed.fabric.model.ranges import Range, parse_range


def _parse_any_range(value: object) -> object:
    if isinstance(value, Range):
        return value
    try:
        return parse_range(str(value))
    except ValueError as error:
        reason = str(error)
        if reason.startswith("host bits:"):
            message = f"{value} has host bits set, write {reason.removeprefix('host bits:')}"
            raise make_error("host-bits", message) from error
        raise make_error("bad-range", f"{value!r} is no address range ({reason})") from error


_RULE = "isCIDR(self) && cidr(self) == cidr(self).masked()"
_WRITE = "write a range without host bits, for example 10.244.0.0/16"

AnyRange = Annotated[
    Range, PlainValidator(_parse_any_range), PlainSerializer(str), build_text_schema((_RULE, _WRITE), longest=43)
]


class OtherRanges(FabricModel):
    """Other ranges in use on these hosts; no planned address may lie in them.

    Example:
        pods: [10.244.0.0/16]
        services: [10.96.0.0/12]
        nodes: [192.168.10.0/24, 192.168.20.0/24]
        docker: [172.17.0.0/16]
    """

    pods: tuple[AnyRange, ...] = ()
    """Pod CIDRs of the primary network."""
    services: tuple[AnyRange, ...] = ()
    """Service CIDRs."""
    nodes: tuple[AnyRange, ...] = ()
    """Management, storage and other networks of the hosts."""
    docker: tuple[AnyRange, ...] = (Range(4, 172 << 24 | 17 << 16, 16),)
    """Ranges of docker0 and other docker networks; docker's default is 172.17.0.0/16. Write [] without docker."""


class PodsSpec(FabricModel):
    """How pods get rails.

    Example:
        mode: macvlan
    """

    mode: Literal["move", "sriov", "macvlan"] | None = None
    """move: the port moves into the pod. sriov: a VF of it does. macvlan: pods share it.

    Default: move for point-to-point, sriov if there are VFs, else macvlan.
    """
