"""The first leaf of 2 nodes with 2 rails, routed and bridged, in each format; reviewed by hand.

Write them anew with `python -m tests.switches.test_golden` and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.switches.leaves import derive_sound_leaves, plan_case
from trackbed.switches.dialects import DIALECTS, load_dialect

GOLDEN = Path(__file__).parent / "golden"
CASES = [(case, name) for case in ("point-to-point", "dual-stack", "shared-subnet") for name in DIALECTS]


def rendered(case: str, name: str) -> str:
    """What `trackbed render switch --leaf leaf-u0-r0` prints."""
    return load_dialect(name).render(derive_sound_leaves(name, plan_case(case))[0])


@pytest.mark.parametrize(("case", "name"), CASES)
def test_a_leaf_renders_what_was_reviewed(case: str, name: str) -> None:
    assert rendered(case, name) == (GOLDEN / f"{case}{load_dialect(name).suffix}").read_text()


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{case}{load_dialect(name).suffix}" for case, name in CASES}


if __name__ == "__main__":
    for known in CASES:
        (GOLDEN / f"{known[0]}{load_dialect(known[1]).suffix}").write_text(rendered(*known))
