"""Options of NCCL that a fabric does not determine: what each does, for jobs that measure or tune.

Source: NCCL user guide, "Environment variables". Variables of the plan are no options.
"""

NCCL_OPTIONS = {
    "NCCL_DEBUG": "VERSION, WARN, INFO or TRACE; INFO names the NICs of every ring at the start",
    "NCCL_IB_QPS_PER_CONNECTION": "queue pairs of a connection (1); 2 to 4 spread it over more paths without adaptive "
    "routing",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "1 splits every message over the queue pairs, 0 gives each pair whole messages",
    "NCCL_IB_ADAPTIVE_ROUTING": "1 lets switches send packets by any path; only where the fabric routes adaptively",
    "NCCL_IB_TIMEOUT": "time before a packet is sent again, 4.096 us times 2 to this power (20); 22 for large fabrics",
    "NCCL_IB_RETRY_CNT": "times that a packet is sent again before the job ends (7)",
    "NCCL_IB_PCI_RELAXED_ORDERING": "0 never, 1 always, 2 where the NIC supports it (2); needed in virtual machines",
    "NCCL_NET_GDR_LEVEL": "farthest path from GPU to NIC for GPUDirect RDMA: LOC, PIX, PXB, PHB or SYS",
    "NCCL_MIN_CTAS": "fewest thread blocks of a collective; more use more links and more of each GPU",
    "NCCL_BUFFSIZE": "bytes of the buffer between two GPUs (4 MiB); more for long distances",
    "NCCL_ALGO": "algorithms, such as Ring or Tree; for comparisons, since NCCL chooses by size",
    "NCCL_NVLS_ENABLE": "0 turns off reductions in NVLink switches",
    "NCCL_MNNVL_ENABLE": "0 keeps nodes of one NVLink domain from NVLink between them",
    "NCCL_P2P_DISABLE": "1 keeps GPUs of a node from each other's memory, by NVLink and by PCIe",
    "NCCL_SHM_DISABLE": "1 keeps GPUs of a node from shared memory",
}
"""Name of an environment variable -> what it does; in brackets NCCL's default."""
NVLINK_OFF = ("NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NVLS_ENABLE=0", "NCCL_MNNVL_ENABLE=0")
"""Settings by which the GPUs of a node reach each other through its NICs alone."""


def parse_nccl_options(settings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the variables of settings `NAME=VALUE`. Raises ValueError for others than the options."""
    options = []
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in NCCL_OPTIONS or not value:
            raise ValueError(f"write NAME=VALUE with one of {', '.join(NCCL_OPTIONS)}")
        options.append((name, value))
    return tuple(options)
