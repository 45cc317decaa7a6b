from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.exact import U8, U32, U64, format_guid, parse_guid, unpack_exact, unpack_number


@given(st.integers(0, 2**64 - 1))
def test_guid_is_the_same_after_being_written_and_read(guid: int) -> None:
    assert parse_guid(format_guid(guid)) == guid


def test_guid_is_written_as_sysfs_writes_it() -> None:
    assert format_guid(0x005442FFFE000700) == "0054:42ff:fe00:0700"


def test_guid_is_read_with_colons_after_every_byte_too() -> None:
    assert parse_guid("00:11:22:33:44:55:66:77") == 0x0011223344556677


@pytest.mark.parametrize("text", ["", "0011:2233:4455", "0011:2233:4455:6677:8899", "0011:2233:4455:667g"])
def test_what_is_no_guid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"GUID|hexadecimal"):
        parse_guid(text)


@pytest.mark.parametrize("layout", [U8, U32, U64], ids=["1 byte", "4 bytes", "8 bytes"])
@given(data=st.binary(max_size=20))
def test_struct_is_taken_at_its_exact_size_only(layout: Struct, data: bytes) -> None:
    if len(data) == layout.size:
        assert layout.pack(*unpack_exact(layout, data, "X")) == data
    else:
        with pytest.raises(MalformedError, match=rf"^X of {len(data)} bytes, expected {layout.size}$"):
            unpack_exact(layout, data, "X")


def test_absent_number_is_the_default_and_an_empty_one_is_malformed() -> None:
    assert unpack_number(U8, None, "X", 7) == 7
    with pytest.raises(MalformedError, match=r"^X of 0 bytes"):
        unpack_number(U8, b"", "X", 7)
