"""Rails: their number, and their individual settings.

    rails: 8

or, if a rail has its own range:

    rails:
      - {ipv4: 10.1.0.0/16, gateway: 10.1.255.254}
      - {ipv4: 10.2.0.0/16, gateway: 10.2.255.254}
"""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from trackbed.fabric.bounds import MAX_RAILS
from trackbed.fabric.model.model import (
    ANYTHING,
    AddressV4,
    AddressV6,
    FabricModel,
    InterfaceName,
    RangeV4,
    RangeV6,
    make_error,
)


class RailSpec(FabricModel):
    """One rail; omitted fields are computed from `addressing` and `names`.

    Example:
        name: rail0
        ipv4: 10.1.0.0/16
        ipv6: fd00:10:1::/64
        gateway: 10.1.255.254
        gateway6: fd00:10:1::1
    """

    name: InterfaceName | None = None
    """Interface name of this rail's port on every host. Default: names.netdev."""
    ipv4: RangeV4 | None = None
    """IPv4 range of the rail. Default: its part of addressing.ipv4."""
    ipv6: RangeV6 | None = None
    """IPv6 range of the rail. Default: its part of addressing.ipv6."""
    gateway: AddressV4 | None = None
    """IPv4 gateway in the rail's subnet (scheme shared-subnet). Default: by addressing.gateway."""
    gateway6: AddressV6 | None = None
    """IPv6 gateway in the rail's subnet (scheme shared-subnet). Default: by addressing.gateway."""


def _parse_count(value: object) -> object:
    if not isinstance(value, str | int):
        return value
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_RAILS):
        raise make_error("bad-rails", f"rails is {text!r}; write a number from 1 to {MAX_RAILS}, or a list of rails")
    return tuple(RailSpec() for _ in range(int(text)))


def _check_count(value: tuple[RailSpec, ...]) -> tuple[RailSpec, ...]:
    if not 1 <= len(value) <= MAX_RAILS:
        raise make_error("bad-rails", f"rails lists {len(value)}; it must be 1 to {MAX_RAILS}")
    return value


Rails = Annotated[tuple[RailSpec, ...], BeforeValidator(_parse_count), AfterValidator(_check_count), ANYTHING]
