"""The programs that new jobs run: an all-reduce over all GPUs that prints its bus bandwidth.

Bus bandwidth is 2 (n - 1) / n times bytes over time, as nccl-tests counts it (its PERFORMANCE.md): on n ranks it is
what each NIC carries, whatever n.
"""

from __future__ import annotations

_MEASURE = """\
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

TORCH = f"""{_MEASURE}

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
measure(device)
dist.destroy_process_group()
"""
"""For torchrun: one process for each GPU."""

_STAYS = f"{TORCH}\nwhile True:\n    time.sleep(3600)\n"
"""For pods that are started again whenever they end."""

RAY = f"""{_MEASURE}

def train():
    import ray.train.torch

    measure(ray.train.torch.get_device())


if __name__ == "__main__":
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(train, scaling_config=ScalingConfig(num_workers=int(os.environ["RANKS"]), use_gpu=True)).fit()
"""
"""For Ray Train: RANKS workers of one GPU each."""

ALL_REDUCE_PERF = ("all_reduce_perf", "-b", "8M", "-e", "8G", "-f", "2")
"""nccl-tests over sizes from 8 MiB to 8 GiB, doubling; `-g GPUS` follows."""


def torchrun(*options: str, stays: bool = False) -> list[str]:
    """The command of one node's container; options say where the other nodes are. With `stays` it never ends."""
    return ["torchrun", *options, "--no-python", "python3", "-c", _STAYS if stays else TORCH]
