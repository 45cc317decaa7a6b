import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trackbed.host.export.blocks import render_block

TEXTS = (
    "a\n",
    "a\n\n  b\n\tc\n",
    "  a\n",
    "\na\n",
    "a",
    "a\n\n",
    "",
    "é\n",
    "x: y # z\n",
    "a \n",
    "%d\n---\n...\n",
    "\x85\n",
)


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_what_is_read_is_what_was_written(text: str) -> None:
    assert yaml.safe_load(f"k:\n  - v: {render_block(text, 6)}    w: 1\n") == {"k": [{"v": text, "w": 1}]}


@given(st.text(alphabet="ab \t\n#:-'\"\\é\x7f|>%", max_size=40))
def test_any_text_survives(text: str) -> None:
    assert yaml.safe_load(f"v: {render_block(text, 2)}") == {"v": text}


def test_a_file_stays_readable() -> None:
    assert render_block("[Unit]\n\n\tx\n", 2) == "|\n  [Unit]\n\n  \tx\n"
