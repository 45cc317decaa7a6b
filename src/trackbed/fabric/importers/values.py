"""Values of an interface, parsed from text with its place. What cannot be parsed is a problem of the host."""

from pydantic_core import PydanticCustomError

from trackbed.fabric.importers.interface import StaticAddress, StaticRoute, apply_netmask
from trackbed.fabric.importers.result import NOTE, HostProblem
from trackbed.fabric.model.model import check_interface_name
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, parse_address
from trackbed.fabric.model.source import Scalar
from trackbed.fabric.text_syntax import MAC

MIN_MTU_BYTES, MAX_MTU_BYTES = 1280, 65535
"""Limits of a Fabric: the minimum of IPv6 (RFC 8200), and the largest IP packet."""

MAX_HOST_VALUES = 20_000
"""Limit of the addresses and routes of a host; one with eight ports has 100."""

_LINK_LOCAL = Range(V6, 0xFE80 << 112, 10)


class ValueParser:
    """Parses the values of one host and collects `problems`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.problems: list[HostProblem] = []
        self._count = 0

    def add_problem(self, code: str, message: str, place: Place | None, severity: str = "warning") -> None:
        """Add a problem of the host."""
        self.problems.append(HostProblem(code, message, self.host, place, severity))

    def parse_name(self, name: str, place: Place | None) -> str:
        """Return the name of an interface; empty if the kernel would refuse it."""
        try:
            return check_interface_name(name)
        except PydanticCustomError as error:
            self.add_problem("bad-name", error.message(), place)
            return ""

    def parse_mac(self, scalar: Scalar) -> str | None:
        """Return a MAC address in lower case with colons."""
        mac = (scalar.text or "").lower().replace("-", ":")
        if MAC.fullmatch(mac):
            return mac
        message = f"{scalar.text!r} is no MAC address, write for example b8:3f:d2:00:00:01"
        self.add_problem("bad-mac", message, scalar.place)
        return None

    def parse_mtu(self, scalar: Scalar | None) -> int | None:
        """Return an MTU in bytes; None without one, or outside of the limits of a Fabric."""
        if scalar is None or scalar.text is None:
            return None
        if scalar.text.isascii() and scalar.text.isdigit() and len(scalar.text) <= len(str(MAX_MTU_BYTES)):
            mtu = int(scalar.text)
            if MIN_MTU_BYTES <= mtu <= MAX_MTU_BYTES:
                return mtu
        message = f"mtu is {scalar.text!r}, it must be a number from {MIN_MTU_BYTES} to {MAX_MTU_BYTES}"
        self.add_problem("bad-mtu", message, scalar.place)
        return None

    def parse_address(self, scalar: Scalar) -> StaticAddress | None:
        """Return an address with its prefix length; None for a link-local address of IPv6, which is noted."""
        self._count_value(scalar.place)
        address, _, prefix = (scalar.text or "").partition("/")
        try:
            ip_version, number = parse_address(address)
            if not 0 < int(prefix) <= BITS[ip_version]:
                raise ValueError(prefix)  # noqa: TRY301 - one message for every error
        except ValueError:
            self.add_problem(
                "bad-address", f"{scalar.text!r} is no address with prefix, as 172.16.0.0/31 is", scalar.place
            )
            return None
        if ip_version == V6 and number in _LINK_LOCAL:
            message = f"{scalar.text} is a link-local address; the kernel gives each port one, and no plan has them"
            self.add_problem("link-local", message, scalar.place, NOTE)
            return None
        return StaticAddress(ip_version, number, int(prefix), scalar.place)

    def parse_range(self, scalar: Scalar) -> Range | None:
        """Return a range of a rule; an address without prefix length stands for itself."""
        self._count_value(scalar.place)
        try:
            return _parse_destination(scalar.text or "", 0)
        except ValueError:
            self.add_problem("bad-rule", f"cannot read {scalar.text!r} in a rule", scalar.place)
            return None

    def parse_route(self, destination: str, gateway: str, place: Place, *, in_main_table: bool) -> StaticRoute | None:
        """Return a route. `destination` is a range, an address or `default`; an empty `gateway` means on-link."""
        self._count_value(place)
        try:
            ip_version, via = parse_address(gateway) if gateway else (0, 0)
            return StaticRoute(_parse_destination(destination, ip_version), via, in_main_table, place)
        except ValueError:
            message = f"cannot read the route to {destination!r} via {gateway or destination!r}"
            self.add_problem("bad-route", message, place)
            return None

    def _count_value(self, place: Place) -> None:
        """Raise SpecError beyond MAX_HOST_VALUES."""
        self._count += 1
        if self._count > MAX_HOST_VALUES:
            message = f"the host has more than {MAX_HOST_VALUES} addresses and routes"
            raise SpecError([Problem("too-large", message, place=place)])


def parse_address_or_zero(text: str) -> int:
    """Return the number of an address; 0 if there is none."""
    try:
        return parse_address(text)[1] if text else 0
    except ValueError:
        return 0


def _parse_destination(destination: str, ip_version: int) -> Range:
    if destination == "default":
        return Range(ip_version or V4, 0, 0)
    address, slash, prefix_text = destination.partition("/")
    address_version, number = parse_address(address)
    prefix = int(prefix_text) if slash else BITS[address_version]
    if not 0 <= prefix <= BITS[address_version]:
        raise ValueError(destination)
    return apply_netmask(address_version, number, prefix)
