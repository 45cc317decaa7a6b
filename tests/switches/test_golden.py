"""The first leaf of 2 nodes with 2 rails, routed and bridged, in each format; reviewed by hand.

Write them anew with `python -m tests.switches.test_golden` and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.switches.leaves import made, planned
from trackbed.switches.dialect import DIALECTS

GOLDEN = Path(__file__).parent / "golden"
CASES = [(case, form) for case in ("point-to-point", "dual-stack", "shared-subnet") for form in DIALECTS]


def rendered(case: str, form: str) -> str:
    """What `trackbed render switch --leaf leaf-u0-r0` prints."""
    return DIALECTS[form].render(made(form, planned(case))[0])


@pytest.mark.parametrize(("case", "form"), CASES)
def test_a_leaf_renders_what_was_reviewed(case: str, form: str) -> None:
    assert rendered(case, form) == (GOLDEN / f"{case}{DIALECTS[form].suffix}").read_text()


def test_every_golden_file_belongs_to_a_case() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{case}{DIALECTS[form].suffix}" for case, form in CASES}


if __name__ == "__main__":
    for known in CASES:
        (GOLDEN / f"{known[0]}{DIALECTS[known[1]].suffix}").write_text(rendered(*known))
