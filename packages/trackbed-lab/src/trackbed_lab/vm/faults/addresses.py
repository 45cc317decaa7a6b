"""Faults of the step addresses, made in an emulated server with ip(8) and sysctls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import configure_port

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_DOCKER = "docker0"
_CHOSEN = "192.0.2.77/32"
"""TEST-NET-1 (RFC 5737)."""
_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"


def _again(server: FaultyServer) -> None:
    """What went with the address or the link is set as planned."""
    server.restore()
    configure_port(server)


def _own(server: FaultyServer) -> str:
    return str(server.port.addressed[0])


def _gone(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", _own(server), "dev", server.port.netdev)


def _wide(server: FaultyServer) -> None:
    _gone(server)
    server.run("ip", "address", "add", f"{_own(server).partition('/')[0]}/8", "dev", server.port.netdev)


def _narrow_again(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", f"{_own(server).partition('/')[0]}/8", "dev", server.port.netdev)
    _again(server)


def _extra(server: FaultyServer) -> None:
    server.run("ip", "address", "add", _CHOSEN, "dev", server.port.netdev)


def _no_extra(server: FaultyServer) -> None:
    server.run("ip", "address", "delete", _CHOSEN, "dev", server.port.netdev)


def _twice(server: FaultyServer) -> None:
    server.run("ip", "link", "add", "lab-twin", "type", "dummy")
    server.run("ip", "address", "add", f"{_own(server).partition('/')[0]}/32", "dev", "lab-twin")


def _once(server: FaultyServer) -> None:
    server.run("ip", "link", "delete", "lab-twin")


def _overlapping(server: FaultyServer) -> None:
    """Docker's bridge inside the port's own subnet, as far from the port's address as a /30 can be."""
    subnet = server.port.addressed[0].subnet
    server.run("ip", "link", "add", _DOCKER, "type", "bridge")
    server.run("ip", "address", "add", f"{str(subnet).partition('/')[0]}/30", "dev", _DOCKER)
    server.run("ip", "link", "set", _DOCKER, "up")


def _apart(server: FaultyServer) -> None:
    server.run("ip", "link", "delete", _DOCKER)


def _flux(server: FaultyServer) -> None:
    server.write(f"/proc/sys/net/ipv4/conf/{server.port.netdev}/arp_ignore", "0")


def _advertised(server: FaultyServer) -> None:
    server.write(f"/proc/sys/net/ipv6/conf/{server.port.netdev}/accept_ra", "1")


def _full(server: FaultyServer) -> None:
    server.write("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "16")


def _services(server: FaultyServer) -> None:
    server.write(_SERVER, f"    - --service-cluster-ip-range={server.port.addressed[0].subnet}\n")


FAULTS: tuple[VmFault, ...] = (
    VmFault("addr-missing", _gone, _again),
    VmFault("addr-prefix-length-wrong", _wide, _narrow_again),
    VmFault("addr-same-on-two-local-ports", _twice, _once),
    VmFault("addr-docker0-overlap", _overlapping, _apart),
    VmFault("addr-service-cidr-overlap", _services),
    VmFault("addr-neighbour-table-overflow", _full),
    VmFault("addr-arp-flux", _flux),
    VmFault("addr-router-advertisement-default", _advertised),
    VmFault("addr-unplanned-extra", _extra, _no_extra),
)
