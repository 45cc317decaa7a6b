"""Faults of the step qos, injected in an emulated server: rdma_cm's default traffic class of soft-RoCE, in configfs.

Its NICs have neither data center bridging nor counters by priority, and soft-RoCE has no RoCE v1; those faults are
tested only on recorded hosts.
"""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.rdma import find_device_name


def _reset_traffic_class(server: FaultyServer) -> None:
    """Set the default traffic class to 0 (Documentation/ABI/testing/configfs-rdma_cm)."""
    device = find_device_name(server, server.port)
    server.write_file(f"/sys/kernel/config/rdma_cm/{device}/ports/1/default_roce_tos", "0")


FAULTS: tuple[VmFault, ...] = (VmFault("qos-rdma-cm-tos-wrong", _reset_traffic_class),)
