"""A table cuts no word at any width, keeps its columns, and stays inside the width where words allow it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.cli.table_layout import lay_out

COLUMNS = ("node", "port", "ipv4", "what")
ROWS = [
    ("worker-gpu-0", "0000:1a:00.0", "172.16.0.0/31", "the port's NIC is on the bus"),
    ("worker-gpu-1", "0000:1b:00.0", "172.16.0.2/31", "-"),
]


def laid_out(width: int | None) -> list[str]:
    return [line.text for line in lay_out(COLUMNS, ROWS, width)]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            None,
            [
                "node          port          ipv4           what",
                "worker-gpu-0  0000:1a:00.0  172.16.0.0/31  the port's NIC is on the bus",
                "worker-gpu-1  0000:1b:00.0  172.16.0.2/31  -",
            ],
        ),
        (
            60,
            [
                "node          port          ipv4           what",
                "worker-gpu-0  0000:1a:00.0  172.16.0.0/31  the port's NIC is",
                "                                           on the bus",
                "worker-gpu-1  0000:1b:00.0  172.16.0.2/31  -",
            ],
        ),
        (
            40,
            [
                "node          port",
                "  ipv4           what",
                "worker-gpu-0  0000:1a:00.0",
                "  172.16.0.0/31  the port's NIC is on",
                "                 the bus",
                "worker-gpu-1  0000:1b:00.0",
                "  172.16.0.2/31  -",
            ],
        ),
        (
            10,
            [
                *("node", "  port", "  ipv4", "  what"),
                *("worker-gpu-0", "  0000:1a:00.0", "  172.16.0.0/31", "  the port's NIC", "  is on the bus"),
                *("worker-gpu-1", "  0000:1b:00.0", "  172.16.0.2/31", "  -"),
            ],
        ),
    ],
    ids=["pipe", "prose is broken", "columns on two lines", "narrower than a word"],
)
def test_a_width_has_its_layout(width: int | None, lines: list[str]) -> None:
    assert laid_out(width) == lines


CELLS = st.lists(st.text("0af.:/-", min_size=1, max_size=30), max_size=8).map(" ".join)
TABLES = st.integers(1, 6).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=4))


@given(TABLES, st.integers(1, 150))
def test_no_word_is_cut_at_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    lines = [line.text for line in lay_out(rows[0], rows[1:], width)]
    assert sorted(" ".join(lines).split()) == sorted(" ".join(" ".join(row) for row in rows).split())
    longest = max((len(word) for row in rows for cell in row for word in cell.split()), default=0)
    assert max(map(len, lines)) <= max(width, longest + 2, 16 + 2)


def test_headings_are_told_from_rows() -> None:
    assert [line.is_heading for line in lay_out(("a", "b"), [("1" * 40, "2" * 40)], 60)] == [True, True, False, False]
