"""Patterns of the schemas beside the functions that read such texts."""

from __future__ import annotations

import binascii
import re

from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.quantities import parse_quantity
from trackbed.lint.schemas.formats import PATTERNS, QUANTITY


@given(st.text("0189.+-eEnumkKMGTPi \n", max_size=8))
def test_a_quantity_has_the_pattern_of_schemas_exactly_where_it_has_a_value(text: str) -> None:
    exponent = re.search(r"[eE][+-]?[0-9]{3}", text)
    assert bool(re.search(QUANTITY, text)) == (parse_quantity(text) is not None) or exponent


@given(st.text("Ab+/==\r\n", max_size=12))
def test_base64_has_the_pattern_of_schemas_exactly_where_it_can_be_read_without_ends_of_lines(text: str) -> None:
    digits = text.translate({ord("\r"): None, ord("\n"): None})
    try:
        decoded = binascii.a2b_base64(digits, strict_mode=True)
        is_base64 = len(binascii.b2a_base64(decoded, newline=False)) == len(digits)  # Python allows AAAA=
    except binascii.Error:
        is_base64 = False
    assert bool(re.search(PATTERNS["byte"], text)) == is_base64
