from __future__ import annotations

import subprocess

import pytest

from tests.cluster.jobs.wanteds import PLAIN, build_params
from trackbed.cluster.jobs.kinds import KINDS
from trackbed.cluster.jobs.program import RAY, TORCH, build_torchrun_command


@pytest.mark.parametrize(
    "program", [TORCH, RAY, build_torchrun_command(keep_running=True)[-1]], ids=["torchrun", "Ray", "stays"]
)
def test_programs_are_python(program: str) -> None:
    compile(program, "program", "exec")


@pytest.mark.needs("sh")
def test_volcanos_shell_cuts_rank_0_off_the_list_and_hands_on_the_rest() -> None:
    spec = KINDS["volcanojob"].build(build_params(PLAIN))[-1]["spec"]
    shell, option, start, *remainder = spec["tasks"][0]["template"]["spec"]["containers"][0]["command"]
    environment = {"VC_TASK_INDEX": "1", "VC_WORKER_HOSTS": "a-0.a,a-1.a", "PATH": "/usr/bin:/bin"}
    shown = start.replace("exec torchrun", "printf '%s\\n'")
    done = subprocess.run(
        [shell, option, shown, *remainder], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.split("\n")
    assert lines[:5] == [
        "--nnodes=3",
        "--nproc-per-node=2",
        "--node-rank=1",
        "--master-addr=a-0.a",
        "--master-port=29500",
    ]
    assert lines[5:8] == ["--no-python", "python3", "-c"]
    assert "\n".join(lines[8:]) == TORCH + "\n"
