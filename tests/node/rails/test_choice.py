"""Which VF of each rail a pod gets."""

from __future__ import annotations

import pytest

from trackbed.node.rails import choice
from trackbed.node.rails.attachment import Attachment
from trackbed.node.rails.errors import CniError
from trackbed.node.rails.store import ExhaustedError, Slot, TakenError

HOLDER = Attachment("c0", "eth0", "rails", "sriov", "/netns/c0", 1, "boot", ())
TAKEN: dict[Slot, Attachment] = {(0, 0): HOLDER, (1, 1): HOLDER}


def test_the_kubelets_choice_is_taken() -> None:
    assert choice.choose_vfs({0: "rail0-2", 1: "rail1-0"}, 3, TAKEN) == {0: 2, 1: 0}


def test_where_nobody_chose_the_first_free_vf_is_taken() -> None:
    assert choice.choose_vfs({0: "", 1: "", 2: ""}, 3, TAKEN) == {0: 1, 1: 0, 2: 0}


def test_a_vf_in_a_pod_is_refused_with_the_pod() -> None:
    with pytest.raises(TakenError, match="rail 1: VF 1 is in pod c0/eth0"):
        choice.choose_vfs({1: "rail1-1"}, 3, TAKEN)


def test_a_rail_whose_vfs_are_all_taken_is_told() -> None:
    with pytest.raises(ExhaustedError, match="rail 0: all 1 VFs are taken"):
        choice.choose_vfs({0: ""}, 1, TAKEN)


@pytest.mark.parametrize("device", ["rail1", "rail1-3", "rail2-0", "rail1--1", "rail1-", "rail1-x"])
def test_a_device_of_another_plan_is_refused(device: str) -> None:
    with pytest.raises(CniError, match=f"rail 1: {device} is none of this node's 3 VFs"):
        choice.choose_vfs({1: device}, 3, {})
