"""The GPUs of a node, as perftest names them, from what their drivers show.

A GPU of NVIDIA is named by its PCI address: CUDA numbers devices by speed, or as CUDA_VISIBLE_DEVICES says. The plan's
numbers are those of nvidia-smi, in the order of PCI addresses. HIP numbers AMD's GPUs in the order of KFD's nodes, of
which CPUs are some, with gpu_id 0 (kfd_topology.c).
"""

from __future__ import annotations

from collections.abc import Mapping

from trackbed.prove.rungs.rung import Step, get_mapping

_CUDA_GPUS, _KFD_NODES = "/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes"
_CUDA_PEERS = (
    "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
    "/sys/module/nvidia_peermem/version",
)
"""Files that show a module by which NICs reach GPU memory without DMA-BUF (NCCL's net_ib, ncclIbGdrSupport)."""
_ROCM_PEERS = ("/sys/kernel/mm/memory_peers/amdkfd/version",)

STEP: Step = {
    "files": [f"{_CUDA_GPUS}/*/information", f"{_KFD_NODES}/*/gpu_id", *_CUDA_PEERS, *_ROCM_PEERS],
    "programs": [],
}
"""The step that reads what a node shows of its GPUs."""


def list_gpus(output: object) -> list[tuple[str, ...]]:
    """Return perftest's options for each GPU, by number; a node may answer anything."""
    texts = {path: text for path, text in get_mapping(output, "files").items() if isinstance(text, str)}
    addresses = [path.split("/")[-2] for path in texts if path.startswith(_CUDA_GPUS)]
    if addresses:
        dmabuf = () if _has_peer(texts, _CUDA_PEERS) else ("--use_cuda_dmabuf",)
        return [(f"--use_cuda_bus_id={address}", *dmabuf) for address in sorted(addresses)]
    gpus = [path for path, text in texts.items() if path.startswith(_KFD_NODES) and text.strip() not in {"", "0"}]
    dmabuf = () if _has_peer(texts, _ROCM_PEERS) else ("--use_rocm_dmabuf",)
    return [(f"--use_rocm={number}", *dmabuf) for number in range(len(gpus))]


def _has_peer(texts: Mapping[str, str], paths: tuple[str, ...]) -> bool:
    return any(path in texts for path in paths)
