"""Extended resources that are GPUs, by the names that device plugins give them."""

import pytest

from trackbed.fabric.gpus import is_gpu_resource

GPUS = (
    *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/pgpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu"),
    *("habana.ai/gaudi", "aliyun.com/gpu", "vke.volcengine.com/mig-2g.20gb"),
)
OTHERS = ("cpu", "gpu", "nvidia.com/gpumem", "nvidia.com/rail0", "rdma/gpu0", "vpc.amazonaws.com/efa", "a/b/gpu")


@pytest.mark.parametrize("resource", GPUS)
def test_gpus_and_parts_of_them_are_known(resource: str) -> None:
    assert is_gpu_resource(resource)


@pytest.mark.parametrize("resource", OTHERS)
def test_other_resources_are_no_gpus(resource: str) -> None:
    assert not is_gpu_resource(resource)
