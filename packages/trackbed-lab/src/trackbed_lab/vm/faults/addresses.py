"""Faults of the step addresses, injected in an emulated server with ip(8) and sysctls."""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import configure_port

_BRIDGE = "docker0"
_UNPLANNED = "192.0.2.77/32"
"""In TEST-NET-1 (RFC 5737)."""
_API_SERVER_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"


def _reapply_plan(server: FaultyServer) -> None:
    """Apply the plan again to restore everything that depends on the address or the link."""
    server.restore_saved_files()
    configure_port(server)


def _format_address(server: FaultyServer) -> str:
    """Return the port's address with its prefix length."""
    return str(server.port.addresses[0])


def _delete_address(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", _format_address(server), "dev", server.port.netdev)


def _widen_prefix(server: FaultyServer) -> None:
    _delete_address(server)
    server.run("ip", "address", "add", f"{_format_address(server).partition('/')[0]}/8", "dev", server.port.netdev)


def _restore_prefix(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", f"{_format_address(server).partition('/')[0]}/8", "dev", server.port.netdev)
    _reapply_plan(server)


def _add_unplanned(server: FaultyServer) -> None:
    server.run("ip", "address", "add", _UNPLANNED, "dev", server.port.netdev)


def _delete_unplanned(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", _UNPLANNED, "dev", server.port.netdev)


def _add_twin(server: FaultyServer) -> None:
    server.run("ip", "link", "add", "lab-twin", "type", "dummy")
    server.run("ip", "address", "add", f"{_format_address(server).partition('/')[0]}/32", "dev", "lab-twin")


def _delete_twin(server: FaultyServer) -> None:
    server.run("ip", "link", "delete", "lab-twin")


def _add_bridge(server: FaultyServer) -> None:
    """Create Docker's bridge inside the port's subnet, as far from the port's address as a /30 can be."""
    subnet = server.port.addresses[0].subnet
    server.run("ip", "link", "add", _BRIDGE, "type", "bridge")
    server.run("ip", "address", "add", f"{str(subnet).partition('/')[0]}/30", "dev", _BRIDGE)
    server.run("ip", "link", "set", _BRIDGE, "up")


def _delete_bridge(server: FaultyServer) -> None:
    server.run("ip", "link", "delete", _BRIDGE)


def _allow_arp_flux(server: FaultyServer) -> None:
    server.write_file(f"/proc/sys/net/ipv4/conf/{server.port.netdev}/arp_ignore", "0")


def _accept_router_advertisements(server: FaultyServer) -> None:
    server.write_file(f"/proc/sys/net/ipv6/conf/{server.port.netdev}/accept_ra", "1")


def _shrink_neighbour_table(server: FaultyServer) -> None:
    server.write_file("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "16")


def _overlap_service_range(server: FaultyServer) -> None:
    subnet = server.port.addresses[0].subnet
    server.write_file(_API_SERVER_MANIFEST, f"    - --service-cluster-ip-range={subnet}\n")


FAULTS: tuple[VmFault, ...] = (
    VmFault("addr-missing", _delete_address, _reapply_plan),
    VmFault("addr-prefix-length-wrong", _widen_prefix, _restore_prefix),
    VmFault("addr-same-on-two-local-ports", _add_twin, _delete_twin),
    VmFault("addr-docker0-overlap", _add_bridge, _delete_bridge),
    VmFault("addr-service-cidr-overlap", _overlap_service_range),
    VmFault("addr-neighbour-table-overflow", _shrink_neighbour_table),
    VmFault("addr-arp-flux", _allow_arp_flux),
    VmFault("addr-router-advertisement-default", _accept_router_advertisements),
    VmFault("addr-unplanned-extra", _add_unplanned, _delete_unplanned),
)
