"""The first leaf of 2 nodes with 2 rails, routed and bridged, in each format; reviewed by hand.

`scripts/test --rewrite switches` writes them; review the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.switches.leaves import derive_sound_leaves, plan_case
from trackbed.switches.dialects import MODULES, load_dialect

GOLDEN = Path(__file__).parent / "golden"
CASES = [(case, name) for case in ("point-to-point", "dual-stack", "shared-subnet") for name in MODULES]


def render_first_leaf(case: str, name: str) -> str:
    """Return the output of `trackbed render switch --leaf leaf-u0-r0`."""
    return load_dialect(name).render(derive_sound_leaves(name, plan_case(case))[0])


@pytest.mark.parametrize(("case", "name"), CASES)
def test_a_leaf_renders_what_was_reviewed(check_golden: Callable[[Path, str], None], case: str, name: str) -> None:
    check_golden(GOLDEN / f"{case}{load_dialect(name).suffix}", render_first_leaf(case, name))


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{case}{load_dialect(name).suffix}" for case, name in CASES}
