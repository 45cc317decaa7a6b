"""Patterns of the schemas beside the functions that read such texts."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.quantities import parse_quantity
from trackbed.lint.schemas.formats import QUANTITY


@given(st.text("0189.+-eEnumkKMGTPi \n", max_size=8))
def test_a_quantity_has_the_pattern_of_schemas_exactly_where_it_has_a_value(text: str) -> None:
    exponent = re.search(r"[eE][+-]?[0-9]{3}", text)
    assert bool(re.search(QUANTITY, text)) == (parse_quantity(text) is not None) or exponent
