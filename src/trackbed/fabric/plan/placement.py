"""Whether pods can be placed on the NUMA nodes of their rails, as far as PCI addresses show them."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Problem

_STRICT_POLICIES = frozenset({"restricted", "single-numa-node"})
_SECOND_SOCKET_BUS = 0x80
"""Firmware of servers with two sockets gives the buses from here on to the second (`model/servers`: all of them do)."""


def check_placement(spec: FabricSpec) -> Iterator[Problem]:
    """Warn of a topology policy under which kubelet refuses pods that take rails of two sockets.

    Each rail is a resource of its own, and ports on two sockets have no NUMA node in common (kubernetes.io, "Control
    Topology Management Policies on a node").
    """
    policy = spec.kubelet.topology_manager
    for index, group in enumerate(spec.nodes if policy in _STRICT_POLICIES else ()):
        ports = group.select_ports(group.list_names()[0], len(spec.rails)) if group.ports else []
        buses = [int(port.pci.split(":")[1], 16) for port in ports if port and port.pci]
        if buses and min(buses) < _SECOND_SOCKET_BUS <= max(buses):
            message = (
                f"the ports of group {index + 1} seem to be on two sockets (PCI buses {min(buses):02x} and "
                f"{max(buses):02x}), and under {policy} kubelet refuses pods with rails of both; write best-effort"
            )
            yield Problem("rails-on-two-sockets", message, ("spec", "kubelet", "topologyManager"), severity="warning")
