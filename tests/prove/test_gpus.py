"""GPUs of nodes, and writes between their memories: only a value of the plan's GPU counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.gpus import list_gpus
from trackbed.prove.report import build_report
from trackbed.prove.rungs import gpu_bw
from trackbed.prove.rungs.rung import PathEnd, ProbedPath, RungReading

CUDA, KFD = "/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes"
PEER = "/sys/module/nvidia_peermem/version"
HOST = {f"{CUDA}/0000:{bus}:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\n" for bus in ("5d", "1b")}
A = PathEnd("gpu1", 0, "rail0", "rail0", "10.0.0.1", 3, ("--use_cuda_bus_id=0000:1b:00.0",))
B = PathEnd("gpu2", 0, "rail0", "rail0", "10.0.0.2", 5, ("--use_rocm=4", "--use_rocm_dmabuf"))
PATH = ProbedPath(A, B, 4200, 4096, 106)
ENDED = {"status": 0, "stdout": "", "stderr": ""}
UNKNOWN = "ib_write_bw: unrecognized option '--use_cuda_bus_id=0000:1b:00.0'\n Parser function exited with Error\n"
"""What Debian 12's perftest (6.06) prints, which knows no GPU."""


def build_output(**info: object) -> dict[str, object]:
    """Return the answer of a client whose JSON has this of its test."""
    about = {"test": "RDMA_Write_Bidirectional_BW_Test", "Device": "rail0", **info}
    return {**ENDED, "stderr": json.dumps({"test_info": about, "results": {"MsgSize": 65536, "BW_average": 760.0}})}


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({}, []),
        (HOST, [(f"--use_cuda_bus_id=0000:{bus}:00.0", "--use_cuda_dmabuf") for bus in ("1b", "5d")]),
        (HOST | {PEER: "535\n"}, [(f"--use_cuda_bus_id=0000:{bus}:00.0",) for bus in ("1b", "5d")]),
        (
            {f"{KFD}/0/gpu_id": "0\n", f"{KFD}/1/gpu_id": "28851\n", f"{KFD}/2/gpu_id": "23018\n"},
            [("--use_rocm=0", "--use_rocm_dmabuf"), ("--use_rocm=1", "--use_rocm_dmabuf")],
        ),
        (
            {f"{KFD}/1/gpu_id": "28851\n", "/sys/kernel/mm/memory_peers/amdkfd/version": "1.0\n"},
            [("--use_rocm=0",)],
        ),
    ],
    ids=["none", "cuda", "cuda with a peer module", "rocm", "rocm with a peer module"],
)
def test_gpus_are_named_in_the_order_of_their_numbers(files: dict[str, str], options: list[tuple[str, ...]]) -> None:
    assert list_gpus({"files": files, "missing": []}) == options


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_node_may_answer_anything(output: Any) -> None:
    assert list_gpus(output) == list_gpus({"files": output}) == []


def test_each_end_uses_its_own_gpu() -> None:
    client, server = gpu_bw.build_steps(PATH)
    assert " --use_cuda_bus_id=0000:1b:00.0 --out_json " in " ".join(client["argv"])
    assert " --use_rocm=4 --use_rocm_dmabuf --out_json " in " ".join(server["argv"])


@pytest.mark.parametrize(
    ("a", "b", "reading"),
    [
        (build_output(cuda_device=3), ENDED, RungReading("measured", 380.0)),
        (build_output(Use_ROCm_memory="ON"), ENDED, RungReading("measured", 380.0)),
        (
            build_output(Use_ROCm_memory="OFF"),
            ENDED,
            RungReading("unclear", reason="ib_write_bw to gpu2: its JSON is of host memory", node="gpu1"),
        ),
        (
            {**ENDED, "status": 1, "stderr": UNKNOWN},
            ENDED,
            RungReading(
                "not-tested",
                reason="its ib_write_bw has no GPU memory: install a perftest that is built with CUDA or ROCm",
                node="gpu1",
            ),
        ),
        (
            {**ENDED, "status": 1, "stderr": "Couldn't connect to 10.0.0.2:18515\n"},
            {**ENDED, "status": 1, "stdout": " Unsupported memory type\n"},
            RungReading(
                "not-tested",
                reason="its ib_write_bw has no GPU memory: install a perftest that is built with CUDA or ROCm",
                node="gpu2",
            ),
        ),
        (
            {**ENDED, "status": 1, "stderr": "Couldn't init GPU context: 1\n"},
            ENDED,
            RungReading("failed", reason="gpu1 to gpu2: the client failed with status 1: Couldn't init GPU context: 1"),
        ),
        (
            {"missing": "ib_write_bw"},
            ENDED,
            RungReading("not-tested", reason="it has no ib_write_bw: install perftest", node="gpu1"),
        ),
    ],
    ids=["cuda", "rocm", "host memory", "no option", "no memory at the server", "a GPU that fails", "no program"],
)
def test_outputs_are_read(a: object, b: object, reading: RungReading) -> None:
    assert gpu_bw.read(PATH, a, b) == reading


def build_hosts(**faults: Any) -> Hosts:
    """Return 12 hosts with two rails and two GPUs each."""
    plan = build_plan(12)
    return Hosts(plan, gpus={node.name: HOST for node in plan.nodes}, **faults)


def test_a_port_that_is_slow_from_gpu_memory_alone_is_named_with_what_to_look_at() -> None:
    report = build_report(build_hosts(gpu_gbps={("n6", 1): 150.0}).prove(rungs=("ping", "gid", "write_bw", "gpu_bw")))
    assert [(culprit.rung, culprit.where) for culprit in report.culprits] == [("gpu_bw", "rail 1 of n6")]
    assert "ACS" in report.culprits[0].look
    assert build_report(build_hosts().prove(rungs=("ping", "gid", "gpu_bw"))).status == 0


def test_a_node_without_the_planned_gpu_is_not_tested_on_that_rung_and_told() -> None:
    hosts = build_hosts()
    hosts.gpus = {**hosts.gpus, "n6": dict([next(iter(HOST.items()))])}
    report = build_report(hosts.prove(rungs=("ping", "gid", "write_bw", "gpu_bw")))
    assert (report.status, report.culprits) == (3, ())
    assert [(entry.rungs, entry.tests, entry.nodes, entry.reason) for entry in report.untested] == [
        (("gpu_bw",), 3, ("n6",), "it has no GPU 1: its drivers show 1")
    ]
