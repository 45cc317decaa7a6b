from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from trackbed.host.snapshot.pseudonyms import Pseudonyms

ONE, OTHER = Pseudonyms(b"k" * 16), Pseudonyms(b"l" * 16)
MAC = bytes.fromhex("b83fd2123456")


def replace_mac(text: str) -> str:
    return ONE.replace_mac(bytes.fromhex(text.replace(":", ""))).hex(":")


def test_a_mac_keeps_its_vendor_and_its_neighbours() -> None:
    first, second = replace_mac("b8:3f:d2:12:34:56"), replace_mac("b8:3f:d2:12:34:57")
    assert first[:9] == second[:9] == "b8:3f:d2:"
    assert first[9:] != "12:34:56"
    assert int(second.replace(":", ""), 16) - int(first.replace(":", ""), 16) == 1


def test_addresses_that_mean_the_same_everywhere_stay() -> None:
    macs = ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01", "01:80:c2:00:00:0e"]
    assert list(map(replace_mac, macs)) == macs
    ipv4 = ["0.0.0.0", "127.0.0.1", "169.254.169.254", "255.255.248.0", "224.0.0.251", "10.0.0.0"]  # noqa: S104 - no bind
    assert [str(ONE.replace_ipv4(IPv4Address(text))) for text in ipv4] == ipv4
    ipv6 = ["::", "::1", "ff02::1", "fe80::1", "fd00::7"]
    assert [str(ONE.replace_ipv6(IPv6Address(text))) for text in ipv6] == ipv6


def test_a_guid_and_addresses_follow_the_mac_that_they_were_made_of() -> None:
    tail = ONE.replace_mac(MAC)[3:]
    assert ONE.replace_guid(bytes.fromhex("b83fd20300123456")) == bytes.fromhex("b83fd20300") + tail
    assert ONE.replace_ipv6(IPv6Address("fe80::ba3f:d2ff:fe12:3456")).packed[13:] == tail
    assert ONE.replace_ipv6(IPv6Address("fe80::b83f:d203:12:3456")).packed[13:] == tail


def test_a_gid_of_ipv4_follows_the_address() -> None:
    address = ONE.replace_ipv4(IPv4Address("10.8.3.17"))
    assert ONE.replace_ipv6(IPv6Address("::ffff:10.8.3.17")) == IPv6Address(f"::ffff:{address}")


def test_a_guid_of_no_mac_keeps_its_vendor_only() -> None:
    guid = bytes.fromhex("0ff08c4321664e96")
    replaced = ONE.replace_guid(guid)
    assert (replaced[:3], replaced[7:], len(replaced)) == (guid[:3], guid[7:], 8)
    assert replaced[3:7] != guid[3:7]
    assert ONE.replace_ipv6(IPv6Address(bytes.fromhex("fe80000000000000") + guid)).packed[8:] == replaced


def test_another_capture_has_other_pseudonyms() -> None:
    assert ONE.replace_mac(MAC) != OTHER.replace_mac(MAC)
    assert ONE.replace_ipv4(IPv4Address("10.8.3.17")) != OTHER.replace_ipv4(IPv4Address("10.8.3.17"))
    assert ONE.replace_bytes(MAC) != OTHER.replace_bytes(MAC)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))
def test_addresses_of_one_network_stay_in_one_network_and_two_stay_two(number: int, low: int) -> None:
    first = IPv4Address(number | 0x0A000000 if number >> 24 in {0, 127, 169} else number)
    second = IPv4Address(int(first) & 0xFFFF0000 | low)
    pseudonym, other = ONE.replace_ipv4(first).packed, ONE.replace_ipv4(second).packed
    for size in (2, 3, 4):
        assert (first.packed[:size] == second.packed[:size]) == (pseudonym[:size] == other[:size])


@given(st.binary(min_size=16, max_size=16))
def test_any_ipv6_address_has_one(raw: bytes) -> None:
    replaced = ONE.replace_ipv6(IPv6Address(raw))
    assert replaced == ONE.replace_ipv6(IPv6Address(raw))
    assert replaced.packed[:2] == raw[:2]
