"""Values of an interface that a gateway decides, or its absence."""

import pytest

from trackbed.fabric.importers.interface import StaticRoute
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import V4, V6, Range

PLACE = Place("gpu-1.yaml", 7, 3)


@pytest.mark.parametrize(
    ("destination", "gateway", "to", "via"),
    [
        ("default", "", Range(V4, 0, 0), 0),
        ("default", "10.0.0.1", Range(V4, 0, 0), 0x0A000001),
        ("default", "fd00::1", Range(V6, 0, 0), 0xFD00 << 112 | 1),
        ("10.0.0.0/8", "", Range(V4, 10 << 24, 8), 0),
        ("fd00::/8", "", Range(V6, 0xFD << 120, 8), 0),
    ],
    ids=["default on-link", "default IPv4", "default IPv6", "IPv4 on-link", "IPv6 on-link"],
)
def test_a_default_route_has_its_gateways_family_and_an_on_link_one_is_ipv4(
    destination: str, gateway: str, to: Range, via: int
) -> None:
    parser = ValueParser("gpu-1")
    route = parser.parse_route(destination, gateway, PLACE, in_main_table=True)
    assert (route, parser.problems) == (StaticRoute(to, via, True, PLACE), [])  # noqa: FBT003 - in the main table
