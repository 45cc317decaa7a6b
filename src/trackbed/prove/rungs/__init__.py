"""The rungs of the ladder, from the wire up: what each end of a path runs, and how its output becomes a value.

ping       IP    the largest packet that RDMA sends, not fragmented, from the rail's own address, both directions
tcp_bw     IP    rate of a TCP stream in each direction, Gb/s; climbed only where it is named
gid        RDMA  the port's RDMA device has a RoCE v2 GID of the planned address (no traffic; see `gid`)
rdma_cm    RDMA  a connection by the rail's address (rping)
write_bw   RDMA  rate of writes in both directions, host memory, Gb/s of one direction (ib_write_bw)
write_lat  RDMA  latency of small writes, microseconds (ib_write_lat)
gpu_bw     RDMA  rate of writes in both directions, memory of the plan's GPUs; climbed only where it is named

A path is tested on a rung only if it passed the rung below. No rung of IP says anything of RDMA.
"""

from collections.abc import Iterable

from trackbed.prove.rungs import gpu_bw, ping, rdma_cm, tcp_bw, write_bw, write_lat
from trackbed.prove.rungs.rung import Rung

GID = "gid"
"""The rung that is read of each port, and sends nothing."""

PATH_RUNGS: dict[str, Rung] = {
    rung.name: rung for rung in (ping.RUNG, tcp_bw.RUNG, rdma_cm.RUNG, write_bw.RUNG, write_lat.RUNG, gpu_bw.RUNG)
}
"""The rungs that test paths, lowest first."""

RUNGS = ("ping", "tcp_bw", GID, "rdma_cm", "write_bw", "write_lat", "gpu_bw")
"""All rungs, lowest first."""

LADDER = tuple(name for name in RUNGS if name not in {"tcp_bw", "gpu_bw"})
"""The rungs of a proof that names none."""


def needs_gpus(names: Iterable[str]) -> bool:
    """Return whether any of these rungs tests the memory of GPUs."""
    return any(name != GID and PATH_RUNGS[name].needs_gpu for name in names)
