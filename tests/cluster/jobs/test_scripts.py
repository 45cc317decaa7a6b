"""Variables that a container's command sets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, template
from trackbed.cluster.jobs.inject import inject_rails

COMMANDS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "RDMA off": (
        {"command": ["bash", "-c", "export NCCL_IB_DISABLE=1; torchrun a.py"]},
        [("ib-disabled", "command[2]")],
    ),
    "another value": ({"args": ["export NCCL_IB_TC=0\nrun"]}, [("nccl-variable", "args[0]")]),
    "the planned value": ({"args": ["export NCCL_IB_TC=104; run"]}, []),
    "a value of the shell": ({"args": ["export NCCL_IB_TC=$TC; run"]}, []),
    "a comment": ({"args": ["# export NCCL_IB_TC=0\nrun"]}, []),
    "the last of two": ({"args": ["export NCCL_IB_TC=0; export NCCL_IB_TC=104; run"]}, []),
    "a variable of the command alone": ({"command": ["env", "NCCL_IB_TC=0", "run"]}, [("nccl-variable", "command[1]")]),
    "devices by prefix": (
        {"args": ["export NCCL_IB_HCA=mlx5_1"]},
        [("nccl-variable", "args[0]"), ("hca-prefix", "args[0]")],
    ),
    "a number": ({"args": [5]}, []),
}


@pytest.mark.parametrize(("fields", "kept"), COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_sets_against_the_plan_is_told(fields: dict[str, Any], kept: list[tuple[str, str]]) -> None:
    notes = [note for note in inject_rails(template(**fields), PLAIN) if note.verdict != "missing"]
    assert [(note.code, note.path) for note in notes] == [(code, f"spec.containers[0].{place}") for code, place in kept]
