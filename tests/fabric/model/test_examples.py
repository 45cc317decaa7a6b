"""The examples in the repository are valid and short, and show the features they describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def test_there_is_one_for_each_scheme_with_addresses() -> None:
    schemes = {load_fabric(path.read_bytes(), path.name).fabric.spec.addressing.scheme for path in EXAMPLES}
    assert schemes == {"shared-subnet", "node-subnet", "point-to-point"}


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_plans_without_a_warning_in_under_25_lines(path: Path) -> None:
    fabric = load_fabric(path.read_bytes(), path.name).fabric
    assert compute_plan(fabric, {}).warnings == ()
    assert len(path.read_text().splitlines()) < 25
    assert fabric.metadata.name == path.stem
