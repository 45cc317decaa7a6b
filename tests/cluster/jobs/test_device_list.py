"""Lists of devices in NCCL_IB_HCA: which and how many rails they name."""

from __future__ import annotations

import pytest

from tests.cluster.jobs.wanteds import PLAIN, template
from trackbed.cluster.jobs.environment import describe_device_list
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.stacks.access import Access, Hca

ACCESS = Access(hcas=tuple(Hca(f"mlx5_{rail}", 1, rail) for rail in range(12)))
LISTS = {
    "mlx5_2": ", which names rail 2 of 12",
    "=mlx5_1,mlx5_3:1": ", which names rails 1, 3 of 12",
    "mlx5_1": ", which names rails 1, 10, 11 of 12",
    "=mlx5_99": ", which names none of the 12 rails",
    "^mlx5_1": "",
    "": "",
}


@pytest.mark.parametrize(("value", "expected"), LISTS.items())
def test_a_list_names_rails(value: str, expected: str) -> None:
    assert describe_device_list(value, ACCESS) == expected


EFFECTS = {
    "=mlx5_1": "NCCL uses these devices alone",
    "=" + ",".join(f"mlx5_{rail}:1" for rail in range(12)): (
        "NCCL is not told the planned port and rail of each device, and may connect different rails"
    ),
    "^mlx5_1": "NCCL takes every RDMA device it sees, storage and management among them",
}


@pytest.mark.parametrize(("value", "effect"), EFFECTS.items(), ids=["one", "all", "all but one"])
def test_a_list_has_the_effect_of_its_devices(value: str, effect: str) -> None:
    requirements = PodRequirements(ACCESS, (("NCCL_IB_HCA", "=" + ",".join(map(str, ACCESS.hcas))),))
    notes = inject_rails(template(env=[{"name": "NCCL_IB_HCA", "value": value}]), requirements)
    assert [note.breaks for note in notes if note.code == "nccl-variable"] == [effect]


def test_a_list_to_exclude_is_never_advised_to_become_a_selection() -> None:
    notes = inject_rails(template(env=[{"name": "NCCL_IB_HCA", "value": "^mlx5_1"}]), PodRequirements(PLAIN.access))
    assert [note.breaks.rpartition("; ")[2] for note in notes if note.code == "hca-prefix"] == [
        "begin the value with =, and a list to exclude with ^="
    ]


COUNTS = {"mlx5_0": 1, "=mlx5_0": 1, "mlx5_0,mlx5_1": 0, "mlx5": 0, "^mlx5_0": 0}


@pytest.mark.parametrize(("value", "count"), COUNTS.items())
def test_where_devices_have_no_planned_names_they_are_counted(value: str, count: int) -> None:
    pod = template(env=[{"name": "NCCL_IB_HCA", "value": value}])
    notes = inject_rails(pod, PodRequirements(PLAIN.access))
    assert [note.difference for note in notes if note.code == "nccl-fewer-devices"] == [
        "NCCL_IB_HCA names 1 (mlx5_0) of 2 rails"
    ] * count
