"""Programs of new jobs: an all-reduce over all GPUs that prints its bus bandwidth.

With n ranks the bus bandwidth is 2 (n - 1) / n times bytes over time, as in nccl-tests (PERFORMANCE.md). It is the load
of each NIC and does not depend on n.
"""

_MEASURE_FUNCTION = """\
import os
import time

import torch
import torch.distributed as dist


def measure(device):
    ranks = dist.get_world_size()
    for power in range(20, 34):
        data = torch.ones(2**power // 4, device=device)
        for count in (5, 20):
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            for _ in range(count):
                dist.all_reduce(data)
            torch.cuda.synchronize(device)
            seconds = (time.perf_counter() - start) / count
        if dist.get_rank() == 0:
            gigabytes = 2 * (ranks - 1) / ranks * 2**power / seconds / 1e9
            print(f"{2**power:>12} bytes  {seconds * 1e6:10.1f} us  {gigabytes:8.2f} GB/s bus bandwidth", flush=True)
"""

TORCH = f"""{_MEASURE_FUNCTION}

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
measure(device)
dist.destroy_process_group()
"""
"""Python program for torchrun, which starts one process for each GPU."""

_TORCH_KEEP_RUNNING = f"{TORCH}\nwhile True:\n    time.sleep(3600)\n"
"""The same program followed by an endless sleep, for pods that would be restarted if the program exited."""

RAY = f"""{_MEASURE_FUNCTION}

def train():
    import ray.train.torch

    measure(ray.train.torch.get_device())


if __name__ == "__main__":
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(train, scaling_config=ScalingConfig(num_workers=int(os.environ["RANKS"]), use_gpu=True)).fit()
"""
"""Python program for Ray Train: as many workers as environment variable RANKS says, with one GPU each."""

ALL_REDUCE_PERF = ("all_reduce_perf", "-b", "8M", "-e", "8G", "-f", "2")
"""Command of nccl-tests for sizes from 8 MiB to 8 GiB, doubling; the caller adds `-g GPUS`."""

ALL_REDUCE_BY_RAIL = (
    "sh",
    "-c",
    f"""cd "$(mktemp -d)" && {" ".join(ALL_REDUCE_PERF)} -g 1 -I 1 -J report.json; status=$?
[ "$OMPI_COMM_WORLD_RANK" != 0 ] || sed 's/"env":\\[.*\\],"nccl_version"/"nccl_version"/' report.json
exit $status
""",
)
"""The same with the times of each process, for ranks that are split by rail (nccl-tests with `-I`: July 2026 or later).

Rank 0 prints the report, without the environment that nccl-tests writes into it.
"""


def build_torchrun_command(*options: str, keep_running: bool = False) -> list[str]:
    """Return the torchrun command that runs the all-reduce on one node.

    `options` are further options of torchrun, such as the number of nodes and the address of rank 0. With
    `keep_running` the program sleeps after the measurement instead of exiting.
    """
    return ["torchrun", *options, "--no-python", "python3", "-c", _TORCH_KEEP_RUNNING if keep_running else TORCH]
