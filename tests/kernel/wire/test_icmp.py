import socket
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.kernel.wire.cabling import FORWARDING, Port, cable, configure, host, route, router
from tests.kernel.wire.privileges import without_raw_sockets
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.wire.errors import NotPermitted
from trackbed.kernel.wire.icmp import Ping, PingResult, ping

pytestmark = pytest.mark.needs("namespaces")

A, B, NEAR, FAR = "10.0.0.1", "10.1.0.1", "10.0.0.254", "10.1.0.254"
HEADERS_BYTES = 28  # IPv4 and ICMP


@pytest.fixture
def a(stack: ExitStack) -> Port:
    """A host that reaches another by one router; the second cable takes 1500 bytes, the first 9000."""
    return _behind_a_router(stack, (f"{A}/24", f"{NEAR}/24", f"{B}/24", f"{FAR}/24"), "0.0.0.0/0")


def _behind_a_router(stack: ExitStack, texts: tuple[str, str, str, str], default: str) -> Port:
    middle = router(stack)
    a, near = cable(host(stack), texts[0], middle, texts[1], mtu=9000)
    b, far = cable(host(stack), texts[2], middle, texts[3], mtu=1500)
    for port in (near, far):
        configure(port, FORWARDING)
    route(a, default, near)
    route(b, default, far)
    return a


def number(text: str) -> int:
    return int(ip_address(text))


def asked(target: str, **settings: int | bool | str) -> Ping:
    return Ping(number(A), number(target), **settings)  # type: ignore[arg-type] # a table of several types


def one(a: Port, sent: Ping, timeout_seconds: float = 1.0) -> PingResult:
    (echo,) = ping(a.netns, [sent], timeout_seconds)
    return echo


def test_an_answer_tells_time_and_distance(a: Port) -> None:
    echoes = ping(a.netns, [asked(NEAR), asked(B)], 1.0)
    assert [(echo.outcome, echo.hops) for echo in echoes] == [("answered", 0), ("answered", 1)]
    assert all(0 < (echo.rtt_ms or 0) < 1000 for echo in echoes)


def test_nobody_at_the_address_is_silence(a: Port) -> None:
    assert one(a, asked("10.0.0.77"), 0.05) == PingResult(asked("10.0.0.77"), "silent")


def test_a_packet_too_large_for_this_host_is_refused_here(a: Port) -> None:
    echo = one(a, asked(NEAR, payload_bytes=9001 - HEADERS_BYTES, dont_fragment=True))
    assert (echo.outcome, echo.mtu_bytes, echo.reported_by) == ("too-large", 9000, None)


def test_a_packet_that_just_fits_is_answered(a: Port) -> None:
    assert one(a, asked(NEAR, payload_bytes=9000 - HEADERS_BYTES, dont_fragment=True)).outcome == "answered"


def test_a_packet_too_large_further_on_is_reported_by_the_router_and_spares_the_small_one(a: Port) -> None:
    large = asked(B, payload_bytes=1501 - HEADERS_BYTES, dont_fragment=True)
    small = asked(B)
    for _ in range(2):  # the second time this host has learnt the path's MTU, and must ask all the same
        before, echo, after = ping(a.netns, [small, large, small], 1.0)
        assert (echo.outcome, echo.mtu_bytes, echo.reported_by) == ("too-large", 1500, number(NEAR))
        assert (before.outcome, after.outcome) == ("answered", "answered")


def test_a_ttl_that_ends_on_the_way_names_the_router(a: Port) -> None:
    echo = one(a, asked(B, hop_limit=1))
    assert (echo.outcome, echo.reported_by) == ("expired", number(NEAR))


@pytest.mark.parametrize(
    ("sent", "reported_by", "reason"),
    [
        (asked("192.0.2.1"), number(NEAR), "Network is unreachable"),
        (Ping(number("10.9.9.9"), number(B)), None, "Cannot assign requested address"),
        (asked(NEAR, device="nosuch0"), None, "No such device"),
    ],
    ids=["the router has no route", "source address is not ours", "no such device"],
)
def test_what_cannot_be_reached_says_why(a: Port, sent: Ping, reported_by: int | None, reason: str) -> None:
    echo = one(a, sent)
    assert (echo.outcome, echo.reported_by, echo.reason) == ("unreachable", reported_by, reason)


def test_a_host_without_a_route_says_so(stack: ExitStack) -> None:
    lonely, _ = cable(host(stack), f"{A}/24", host(stack), f"{NEAR}/24")
    assert one(lonely, asked(B)) == PingResult(asked(B), "unreachable", reason="Network is unreachable")


def test_the_device_overrules_the_routes(stack: ExitStack) -> None:
    right, _ = cable(host(stack), f"{A}/24", host(stack), f"{NEAR}/24")
    wrong, _ = cable(right.netns, "10.2.0.1/24", host(stack), "10.2.0.254/24")
    echoes = ping(right.netns, [asked(NEAR, device=right.name), asked(NEAR, device=wrong.name)], 0.1)
    assert [echo.outcome for echo in echoes] == ["answered", "silent"]


def test_ipv6_answers_and_reports_as_ipv4_does(stack: ExitStack) -> None:
    a = _behind_a_router(stack, ("fd00::1/64", "fd00::fe/64", "fd01::1/64", "fd01::fe/64"), "::/0")
    source, target = number("fd00::1"), number("fd01::1")
    small = Ping(source, target, socket.AF_INET6)
    large = Ping(source, target, socket.AF_INET6, payload_bytes=1453, dont_fragment=True)
    answer, refusal = ping(a.netns, [small, large], 1.0)
    assert (answer.outcome, answer.hops) == ("answered", 1)
    assert (refusal.outcome, refusal.mtu_bytes, refusal.reported_by) == ("too-large", 1500, number("fd00::fe"))


def allow_ping_sockets(port: Port, groups: str) -> None:
    with enter_netns(port.netns):
        Path("/proc/sys/net/ipv4/ping_group_range").write_text(groups)


def test_without_raw_sockets_ping_sockets_answer_the_same(a: Port) -> None:
    allow_ping_sockets(a, "0 2147483647")
    large = asked(B, payload_bytes=1501 - HEADERS_BYTES, dont_fragment=True)
    answer, refusal = without_raw_sockets(lambda: ping(a.netns, [asked(B), large], 1.0))
    assert (answer.outcome, answer.hops) == ("answered", 1)
    assert (refusal.outcome, refusal.mtu_bytes, refusal.reported_by) == ("too-large", 1500, number(NEAR))


def test_without_any_socket_the_question_is_not_permitted(a: Port) -> None:
    allow_ping_sockets(a, "1 0")
    with pytest.raises(NotPermitted, match=r"with CAP_NET_RAW, or let net\.ipv4\.ping_group_range"):
        without_raw_sockets(lambda: ping(a.netns, [asked(B)], 1.0))
