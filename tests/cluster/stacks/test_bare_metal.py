"""Files of the stack without Kubernetes: hostfile, library settings, Slurm."""

from __future__ import annotations

from typing import Any

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from tests.cluster.stacks.fabrics import site
from tests.cluster.stacks.sites import NODE_SUBNET, alike
from trackbed.cluster.stacks.bare_metal import STACK
from trackbed.fabric.host_ranges import fold_hosts


def files(nodes: Any, rails: int = 8, **fields: Any) -> dict[str, str]:
    planned = site(nodes, rails, **fields)
    assert list(STACK.refusals(planned)) == []
    return STACK.files(planned)


def test_the_hostfile_has_a_slot_for_each_gpu() -> None:
    nodes = [{"hosts": "gpu-[0-1]", "gpus": 8}, {"hosts": "small-0", "ports": ["eno1", None, "eno3", None]}]
    assert files(nodes, 4)["hostfile"] == "gpu-0 slots=8\ngpu-1 slots=8\nsmall-0 slots=2\n"


def test_nccl_gets_exact_devices_and_no_rail_for_bootstrap() -> None:
    assert files(alike(2, 2), 2)["nccl.conf"] == (
        "# /etc/nccl.conf on every node; what a job sets in its environment comes first.\n"
        "NCCL_IB_HCA==rail0:1:0,rail1:1:1\n"
        "NCCL_SOCKET_IFNAME=^=lo,docker0,rail0,rail1\n"
        "NCCL_IB_ADDR_FAMILY=AF_INET\n"
        "NCCL_IB_ADDR_RANGE=10.0.0.0/12\n"
        "NCCL_IB_TC=104\n"
    )


def test_ucx_has_a_file_of_its_own() -> None:
    assert files(alike(2, 2), 2)["ucx.conf"].splitlines()[1:] == [
        "UCX_NET_DEVICES=rail0:1,rail1:1",
        "UCX_IB_TRAFFIC_CLASS=104",
        "UCX_IB_ROCE_REACHABILITY_MODE=all",
    ]


def test_slurm_sees_a_unit_as_a_switch() -> None:
    assert files(alike(70, 8))["topology.conf"] == (
        "SwitchName=unit0 Nodes=gpu-[0-31]\n"
        "SwitchName=unit1 Nodes=gpu-[32-63]\n"
        "SwitchName=unit2 Nodes=gpu-[64-69]\n"
        "SwitchName=spine Switches=unit[0-2]\n"
    )


def test_one_unit_needs_no_spine() -> None:
    assert files(alike(32, 8))["topology.conf"] == "SwitchName=unit0 Nodes=gpu-[0-31]\n"


def test_slurm_counts_gpus_by_their_devices() -> None:
    nodes = [{"hosts": "gpu-[0-63]"}, {"hosts": "one", "ports": ["eno1", *[None] * 7]}]
    contents = files(nodes)
    assert contents["gres.conf"] == (
        "NodeName=gpu-[0-63] Name=gpu File=/dev/nvidia[0-7]\nNodeName=one Name=gpu File=/dev/nvidia0\n"
    )
    assert "NodeName=one Gres=gpu:1 State=UNKNOWN\n" in contents["slurm.conf"]
    assert "PartitionName=train Nodes=gpu-[0-63],one State=UP\n" in contents["slurm.conf"]


def test_first_jobs_take_all_gpus_of_all_nodes() -> None:
    text = files(alike(4, 2), 2)["run.txt"]
    assert "mpirun --hostfile hostfile -np 8 --bind-to numa --mca oob_tcp_if_exclude lo,docker0,rail0,rail1 " in text
    assert "torchrun --nnodes=4 --nproc-per-node=2 --rdzv-id=train " in text
    assert "--rdzv-endpoint=gpu-0:29500 train.py\n" in text
    assert "srun --partition=train --nodes=4 --ntasks-per-node=2 --gpus-per-node=2 " in text


def test_nodes_with_unlike_numbers_of_gpus_count_them_themselves() -> None:
    text = files([{"hosts": "a"}, {"hosts": "b", "ports": ["eno1", None]}], 2)["run.txt"]
    assert "--nproc-per-node=gpu " in text
    assert "srun" not in text


@pytest.mark.parametrize(
    "names",
    [["gpu-0"], ["gpu-01", "gpu-02", "gpu-03"], ["r1n01", "r1n02", "r2n01"], ["a", "b.example"], ["gpu-9", "gpu-10"]],
    ids=" ".join,
)
def test_folded_names_read_back_as_the_same_nodes(names: list[str]) -> None:
    assert sorted(NodeSet(fold_hosts(names), resolver=RESOLVER_NOGROUP)) == sorted(names)


def test_12500_nodes_fold_into_391_switches() -> None:
    wide = NODE_SUBNET | {"ipv4": "10.0.0.0/8", "ipv4NodePrefix": 29}
    contents = files([{"hosts": "gpu-[0-12499]"}], addressing=wide)
    assert contents["topology.conf"].count("SwitchName=unit") == 391
    assert contents["hostfile"].count("\n") == 12500
