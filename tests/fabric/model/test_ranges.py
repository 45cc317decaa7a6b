"""Address ranges as ints, compared with the standard library."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.model.ranges import BITS, V4, V6, Range, cover, format_address, parse_address, parse_range


@st.composite
def ranges(draw: st.DrawFn, version: int | None = None) -> Range:
    chosen = version or draw(st.sampled_from([V4, V6]))
    prefix = draw(st.integers(0, BITS[chosen]))
    shift = BITS[chosen] - prefix
    return Range(chosen, draw(st.integers(0, (1 << prefix) - 1)) << shift, prefix)


def network(of: Range) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(str(of))


@given(ranges())
def test_text_reads_back_and_is_what_ipaddress_writes(of: Range) -> None:
    assert parse_range(str(of)) == of
    assert str(network(of)) == str(of)


@given(ranges())
def test_size_and_last_are_those_of_ipaddress(of: Range) -> None:
    assert (of.size, of.last) == (network(of).num_addresses, int(network(of).broadcast_address))


@given(ranges(), ranges())
def test_overlap_is_that_of_ipaddress(first: Range, other: Range) -> None:
    same_version = first.version == other.version
    assert first.overlaps(other) == (same_version and network(first).overlaps(network(other)))


@given(st.lists(ranges(V4), min_size=1, max_size=5))
def test_cover_is_the_smallest_range_that_holds_all(listed: list[Range]) -> None:
    covering = cover(listed)
    assert all(member.base in covering and member.last in covering for member in listed)
    if covering.prefix < 32:
        halves = [covering.get_subnet(half, covering.prefix + 1) for half in (0, 1)]
        assert not any(all(member.base in half and member.last in half for member in listed) for half in halves)


def test_a_subnet_past_the_end_is_refused() -> None:
    assert str(parse_range("10.0.0.0/14").get_subnet(3, 16)) == "10.3.0.0/16"
    with pytest.raises(IndexError, match=r"10\.0\.0\.0/14 has 4 ranges of /16, none is number 4"):
        parse_range("10.0.0.0/14").get_subnet(4, 16)


@pytest.mark.parametrize(
    "value", ["", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129", "10.0.0.0/٣"]
)
def test_what_is_no_range_is_refused(value: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts differ, and test_messages has them whole
        parse_range(value)


def test_host_bits_come_with_the_right_text() -> None:
    with pytest.raises(ValueError, match=r"^host bits:10\.0\.0\.0/24$"):
        parse_range("10.0.0.5/24")


GROUPS = st.lists(st.sampled_from([0, 1, 0xA0, 0xFFFF]), min_size=8, max_size=8)
"""Groups of IPv6 addresses with many zeros, where the rules about `::` matter."""


@given(GROUPS.map(lambda groups: sum(group << 16 * place for place, group in enumerate(groups))))
def test_ipv6_is_written_as_rfc_5952_says(number: int) -> None:
    if number >> 32 != 0xFFFF:  # IPv4-mapped ones are written with dots since Python 3.13
        assert format_address(V6, number) == str(ipaddress.IPv6Address(number))
    assert parse_address(format_address(V6, number)) == (V6, number)


DOTTED = st.lists(st.integers(-1, 300), min_size=4, max_size=4).map(lambda octets: ".".join(map(str, octets)))
"""Text like an IPv4 address; about half of it is one."""


@given(st.text("0123456789.:/af٣ -", max_size=16) | DOTTED)
def test_an_address_is_parsed_like_by_ipaddress(text: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            parse_address(text)
    else:
        assert parse_address(text) == (address.version, int(address))


def test_an_address_with_a_long_scope_is_none() -> None:
    assert parse_address("fe80::1%eth0") == (V6, 0xFE80 << 112 | 1)
    with pytest.raises(ValueError, match=r"'fe80::1%x+'\.\.\. is too long for an IP address"):
        parse_address(f"fe80::1%{'x' * 1000}")
