"""Plain scalars as Kubernetes types them."""

import pytest

from trackbed.fabric.typed_yaml import parse_scalar, parse_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("-1", -1),
        ("010", 8),
        ("0x1f", 31),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("on", True),
        ("No", False),
        ("~", None),
        ("10:20:30", "10:20:30"),
        ("2026-01-01", "2026-01-01"),
        ("0000:16:00.0", "0000:16:00.0"),
        ("172.16.0.1", "172.16.0.1"),
        ("0o9", "0o9"),
        ("18446744073709551615", 18446744073709551615),
        ("18446744073709551616", 18446744073709551616.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("0x17f3786dffc6d47767f4f4954f9fd8bb6aadf095", "0x17f3786dffc6d47767f4f4954f9fd8bb6aadf095"),
        ("+", "+"),
        (".", "."),
    ],
)
def test_a_plain_scalar_is_typed_as_the_api_server_reads_it(text: str, value: object) -> None:
    assert parse_scalar(text) == value
    assert type(parse_scalar(text)) is type(value)


def test_quotes_and_blocks_make_text() -> None:
    assert parse_values("a: '8'\nb: \"on\"\nc: |\n  8\n") == [{"a": "8", "b": "on", "c": "8\n"}]
