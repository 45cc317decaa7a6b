"""Rung gpu_bw: the rate of RDMA writes between the memories of two GPUs (ib_write_bw of perftest).

perftest has to be built with CUDA or ROCm. Without, it knows none of these options, as Debian's, or calls the memory
unsupported (linux-rdma/perftest 00b55b6, src/perftest_parameters.c).
"""

from __future__ import annotations

from trackbed.prove.rungs import perftest, write_bw
from trackbed.prove.rungs.rung import ProbedPath, Rung, RungReading, Step, get_text

_UNSUPPORTED = ("unrecognized option '--use_", "Unsupported memory type", "Failed to load CUDA library")
_LOOK = (
    "run `trackbed doctor` there: peer memory (nvidia_peermem or DMA-BUF), ACS, and the PCIe path between NIC and GPU"
)


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the steps of the client, a, and the server, b."""
    client, server = (write_bw.build_argv(path, end, *end.gpu_options) for end in (path.a, path.b))
    return perftest.build_steps(path, client, server)


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return the rate of one direction in Gb/s. A value of host memory is none."""
    for end, output in ((path.a, a), (path.b, b)):
        printed = get_text(output, "stderr") + get_text(output, "stdout")
        if any(text in printed for text in _UNSUPPORTED):
            reason = "its ib_write_bw has no GPU memory: install a perftest that is built with CUDA or ROCm"
            return RungReading("not-tested", reason=reason, node=end.node)
    reading = write_bw.read(path, a, b)
    if reading.state == "measured" and not _is_of_gpu(get_text(a, "stderr")):
        return perftest.build_unclear("ib_write_bw", path, "its JSON is of host memory")
    return reading


def _is_of_gpu(text: str) -> bool:
    info = perftest.parse_info(text)
    return "cuda_device" in info or info.get("Use_ROCm_memory") == "ON"


_SECONDS = 20.0
"""As for host memory, and for CUDA to begin on all GPUs of a node at once: an assumption, not a measurement."""
RUNG = Rung(
    "gpu_bw", "rdma", "Gb/s", _SECONDS, build_steps, read, "ib_write_bw", scale="rate", needs_gpu=True, look=_LOOK
)
