from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers
from pydantic import ValidationError

from trackbed.fabric.model.rollout import FirmwareWave, RolloutSpec, count_nodes


@pytest.mark.parametrize(
    ("amount", "nodes", "is_"),
    [("5%", 1000, 50), ("5%", 10, 1), ("5%", 0, 1), ("0%", 1000, 0), ("100%", 7, 7), ("0", 9, 0), ("3", 2, 3)],
)
def test_an_amount_is_a_number_or_a_share_of_all(amount: str, nodes: int, is_: int) -> None:
    assert count_nodes(amount, nodes) == is_


@given(integers(1, 100), integers(1, 20_000))
def test_a_share_is_never_more_than_it_says_but_one_node(share: int, nodes: int) -> None:
    assert count_nodes(f"{share}%", nodes) <= max(1, nodes * share / 100)


@pytest.mark.parametrize("value", ["101%", "-1", "5.5%", "", "half", "5 %", "1e3", "٣"])
def test_anything_else_is_refused_with_an_example(value: str) -> None:
    with pytest.raises(ValidationError, match="is no number of nodes; write one as 2, or a share of all as 5%"):
        RolloutSpec.model_validate({"maxUnavailable": value})


def test_the_firmware_wave_has_what_all_others_have_unless_it_says_so() -> None:
    assert RolloutSpec().firmware == FirmwareWave.model_validate({"canary": 1, "paused": False})
    assert (
        RolloutSpec.model_validate({"firmware": {"maxUnavailable": 2, "paused": True}}).firmware.max_unavailable == "2"
    )
