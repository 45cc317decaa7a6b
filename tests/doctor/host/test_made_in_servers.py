"""Doctor knows the faults that the lab injects in emulated servers."""

from __future__ import annotations

from types import ModuleType

import pytest
from trackbed_lab.vm.faults import names, rdma, vfs

from trackbed.doctor.catalogue import load_catalogue


@pytest.mark.parametrize(
    ("module", "step"), [(rdma, "rdma"), (vfs, "vfs"), (names, "names")], ids=["rdma", "vfs", "names"]
)
def test_each_fault_is_one_of_its_step_and_made_once(module: ModuleType, step: str) -> None:
    ids = [fault.id for fault in module.FAULTS]
    assert len(ids) == len(set(ids))
    assert {load_catalogue()[fault_id].step for fault_id in ids} == {step}
