"""Names of RDMA devices. `across` compares the order of the rails on nodes with the same NICs."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the name of each port's RDMA device."""
    for port in view.iter_ports():
        names = [device.name for device in list_rdma_devices(host, port.netdev)]
        if names:
            planned = view.node.common.rails[port.rail].rdma
            evidence = f"{port.netdev} has {', '.join(names)}, planned {planned}"
            yield build_finding(
                "names-rdma-device-unexpected", view.node, port, ok=names == [planned], evidence=evidence
            )
