"""Checks across the fields of a Fabric; each yields problems with their path in the document.

Checks that need the arithmetic of the plan (capacity, overlap) are in `plan.capacity`.
"""

from collections.abc import Iterator

from trackbed.fabric.bounds import HOST_VFS
from trackbed.fabric.model.check_pods import check_pods
from trackbed.fabric.model.fabric import FabricSpec, choose_netdev
from trackbed.fabric.model.name_template import KEEP
from trackbed.fabric.model.nodes import MAX_PORTS, NodeGroup, Ports, PortSelector, map_duplicates
from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.text_syntax import explain_bad_interface_name

RDMA_OVERHEAD_BYTES = 104
"""Headers around an RDMA payload on Ethernet, rounded up to the customary 4200 bytes for 4096.

The kernel subtracts 96 (iboe_get_mtu in include/rdma/ib_addr.h) and selects the next lower path MTU.
"""


def check_fabric(spec: FabricSpec) -> Iterator[Problem]:
    """Yield the problems of a Fabric whose fields are each valid by themselves."""
    yield from _check_nodes(spec)
    yield from _check_mtu(spec)
    yield from _check_addressing(spec)
    yield from _check_names(spec)
    if (vfs := spec.vfs.count * len(spec.rails)) > HOST_VFS:
        message = (
            f"{spec.vfs.count} VFs on {len(spec.rails)} rails are {vfs} on a host, {HOST_VFS} at most; write fewer"
        )
        yield Problem("too-many-vfs", message, ("spec", "vfs", "count"))
    if spec.qos.dscp == spec.qos.cnp_dscp:
        message = f"dscp and cnpDscp are both {spec.qos.dscp}: congestion notifications need a class of their own"
        yield Problem("same-dscp", message, ("spec", "qos", "cnpDscp"))
    yield from _check_bmc(spec)
    yield from check_pods(spec)


def _check_bmc(spec: FabricSpec) -> Iterator[Problem]:
    """Yield that several hosts would have one BMC: settings of one would be staged for all."""
    bmc, count = spec.bios.bmc, sum(len(group.list_names()) for group in spec.nodes)
    if bmc and "{host}" not in bmc and count > 1:
        message = f"all {count} hosts would have the BMC {bmc}; write a name with {{host}}, such as bmc-{{host}}"
        yield Problem("bad-bmc", message, ("spec", "bios", "bmc"))


def _check_nodes(spec: FabricSpec) -> Iterator[Problem]:
    count = sum(len(group.list_names()) for group in spec.nodes)
    if count * len(spec.rails) > MAX_PORTS:
        message = (
            f"{count} hosts with {len(spec.rails)} rails have {count * len(spec.rails)} ports, a Fabric has at most "
            f"{MAX_PORTS}; cut it into several"
        )
        yield Problem("too-many-ports", message, ("spec", "nodes"))
    for name, (first, second) in map_duplicates(spec.nodes).items():
        message = f"node {name!r} is already in group {first + 1}; a node belongs to one group"
        yield Problem("duplicate-node", message, ("spec", "nodes", second, "hosts"))
    for index, group in enumerate(spec.nodes):
        yield from _check_group(spec, group, ("spec", "nodes", index))
    yield from _check_duplicate_macs(spec)


def _check_group(spec: FabricSpec, group: NodeGroup, path: Path) -> Iterator[Problem]:
    rails = len(spec.rails)
    lists = [((*path, "hostPorts", host), ports) for host, ports in group.host_ports.items()]
    if group.ports is not None:
        lists.append(((*path, "ports"), group.ports))
    for ports_path, ports in lists:
        if len(ports) != rails:
            server = f" (of server {group.server})" if group.server and ports_path[-1] == "ports" else ""
            message = f"{len(ports)} ports{server} for {rails} rails; list one for each rail, null where there is none"
            yield Problem("port-count", message, ports_path)
        yield from _check_repeated_ports(ports_path, ports)
    if all(len(ports) == rails for _, ports in lists):
        yield from _check_merged_ports(spec, group, path)
    if group.ports and (rail := next((rail for rail, _ in _iter_macs(group.ports)), None)) is not None:
        yield from _check_shared_mac(group, (*path, "ports", rail))
    names = set(group.list_names()) if group.host_ports else set()
    for host in group.host_ports.keys() - names:
        yield Problem("unknown-node", f"{host!r} is not among hosts {group.hosts!r}", (*path, "hostPorts", host))
    if group.ports is not None and len(group.ports) != rails:
        return
    port_count = len(group.list_rails(rails))
    if not port_count:
        yield Problem("no-ports", "these hosts have a port on no rail; leave the group out", (*path, "ports"))
    elif group.gpus and group.gpus % port_count and port_count % group.gpus:
        message = f"{group.gpus} GPUs and {port_count} ports: one must be a multiple of the other"
        yield Problem("gpu-count", message, (*path, "gpus"))


def _check_shared_mac(group: NodeGroup, path: Path) -> Iterator[Problem]:
    """Report a MAC address for all hosts of a group, unless it has only one."""
    count = len(group.list_names())
    if count > 1:
        message = f"one MAC address for {count} hosts; write it under hostPorts, for the host that it belongs to"
        yield Problem("shared-mac", message, path)


def _check_repeated_ports(path: Path, ports: Ports) -> Iterator[Problem]:
    """Report two rails of a host with the same port."""
    for field in ("pci", "mac", "netdev"):
        first_rails: dict[str, int] = {}
        for rail, port in enumerate(ports):
            value = getattr(port, field) if port else None
            if value is not None and first_rails.setdefault(value, rail) != rail:
                label = {"pci": "PCI address", "mac": "MAC address", "netdev": "interface name"}[field]
                message = (
                    f"rails {first_rails[value]} and {rail} have one {label}, {value}; each port belongs to one rail"
                )
                yield Problem("duplicate-port", message, (*path, rail))


def _check_merged_ports(spec: FabricSpec, group: NodeGroup, path: Path) -> Iterator[Problem]:
    """Check the ports of each host as they are planned: the entry of a host completed by that of its group."""
    for host, ports in group.host_ports.items():
        merged = group.select_ports(host, len(spec.rails))
        host_path = (*path, "hostPorts", host)
        if not any(merged):
            yield Problem("no-ports", "this host has a port on no rail; leave it out", host_path)
        if not any(_check_repeated_ports(host_path, ports)):
            yield from _check_repeated_ports(host_path, merged)
        yield from _check_port_names(spec, host_path, merged)
    if group.ports is not None and len(group.list_names()) > len(group.host_ports):
        yield from _check_port_names(spec, (*path, "ports"), group.ports)


def _check_port_names(spec: FabricSpec, path: Path, ports: Ports) -> Iterator[Problem]:
    """Report a port that keeps its name although the port of another rail gets this name."""
    present = [rail for rail, port in enumerate(ports) if port is not None]
    planned = {choose_netdev(spec, rail): rail for rail in present if not _keeps_name(spec, ports[rail])}
    for rail in present:
        port = ports[rail]
        if port is not None and port.netdev in planned and _keeps_name(spec, port):
            message = (
                f"the port of rail {rail} keeps its name {port.netdev}, which the port of rail {planned[port.netdev]} "
                "gets; write another names.netdev"
            )
            yield Problem("duplicate-name", message, (*path, rail))


def _keeps_name(spec: FabricSpec, port: PortSelector | None) -> bool:
    return port is not None and port.keeps_name(keep=spec.names.netdev == KEEP)


def _check_duplicate_macs(spec: FabricSpec) -> Iterator[Problem]:
    """Report a MAC address of two hosts."""
    owners: dict[str, str] = {}
    for index, group in enumerate(spec.nodes):
        for host, ports, path in _iter_ports_of_hosts(group):
            for rail, mac in _iter_macs(ports):
                if owners.setdefault(mac, host) != host:
                    message = f"MAC address {mac} is already at {owners[mac]!r}; a MAC address belongs to one port"
                    yield Problem("duplicate-mac", message, ("spec", "nodes", index, *path, rail))


def _iter_ports_of_hosts(group: NodeGroup) -> Iterator[tuple[str, Ports, Path]]:
    """Yield the ports that are written for a single host, with their place in the group."""
    if group.ports is not None and len(names := group.list_names()) == 1:
        yield names[0], group.ports, ("ports",)
    for host, ports in group.host_ports.items():
        yield host, ports, ("hostPorts", host)


def _iter_macs(ports: Ports) -> Iterator[tuple[int, str]]:
    return ((rail, port.mac) for rail, port in enumerate(ports) if isinstance(port, PortSelector) and port.mac)


def _check_mtu(spec: FabricSpec) -> Iterator[Problem]:
    needed = -(-(spec.rdma.path_mtu + RDMA_OVERHEAD_BYTES) // 4) * 4
    if spec.link_type == "ethernet" and spec.mtu_bytes < needed:
        message = (
            f"mtu {spec.mtu_bytes} leaves no room for RDMA's path MTU of {spec.rdma.path_mtu}: "
            f"it needs {needed} (or set rdma.pathMtu lower)"
        )
        yield Problem("mtu-too-small", message, ("spec", "mtu"))
    if spec.vfs.mtu and spec.vfs.mtu > spec.mtu_bytes:
        message = f"VF mtu {spec.vfs.mtu} is above the port's {spec.mtu_bytes}; a VF cannot send more than its port"
        yield Problem("vf-mtu", message, ("spec", "vfs", "mtu"))


def _check_addressing(spec: FabricSpec) -> Iterator[Problem]:
    addressing, path = spec.addressing, ("spec", "addressing")
    if addressing.scheme == "none":
        return
    for version in ("ipv4", "ipv6"):
        configured = [rail for rail, entry in enumerate(spec.rails) if getattr(entry, version)]
        if getattr(addressing, version) is None and 0 < len(configured) < len(spec.rails):
            message = (
                f"only {len(configured)} of {len(spec.rails)} rails give {version}; give all, or addressing.{version}"
            )
            yield Problem("missing-range", message, path)
    if (
        addressing.ipv4 is None
        and addressing.ipv6 is None
        and not any(rail_entry.ipv4 or rail_entry.ipv6 for rail_entry in spec.rails)
    ):
        message = f"scheme {addressing.scheme} needs a range: addressing.ipv4 (or ipv6), or one for each rail"
        yield Problem("missing-range", message, path)
    if spec.pod_mode == "macvlan" and addressing.pod_addresses == 0:
        yield Problem("no-pod-addresses", "pods.mode macvlan needs podAddresses of 1 or more", (*path, "podAddresses"))
    if addressing.scheme == "point-to-point":
        yield from _check_point_to_point(spec)
    if addressing.scheme == "shared-subnet":
        yield from _check_gateways_without_range(spec)
    else:
        yield from _check_unused_gateways(spec)


def _check_unused_gateways(spec: FabricSpec) -> Iterator[Problem]:
    for rail, entry in enumerate(spec.rails):
        for field, gateway in (("gateway", entry.gateway), ("gateway6", entry.gateway6)):
            if gateway is not None:
                message = (
                    f"{field} belongs to scheme shared-subnet; {spec.addressing.scheme} computes one for each node"
                )
                yield Problem("unused-gateway", message, ("spec", "rails", rail, field))


def _check_gateways_without_range(spec: FabricSpec) -> Iterator[Problem]:
    for rail, entry in enumerate(spec.rails):
        for field, version in (("gateway", "ipv4"), ("gateway6", "ipv6")):
            has_range = getattr(spec.addressing, version) or getattr(entry, version)
            if getattr(entry, field) is not None and not has_range:
                message = f"rail {rail} has no {version} range; write {version}, or leave {field} out"
                yield Problem("unused-gateway", message, ("spec", "rails", rail, field))


def _check_point_to_point(spec: FabricSpec) -> Iterator[Problem]:
    if spec.pods.mode == "macvlan":
        message = "a /31 has no address left for a macvlan pod; write mode: move, or take scheme node-subnet"
        yield Problem("pod-mode", message, ("spec", "pods", "mode"))
    spectrum_x = getattr(spec.addressing, "layout", "dense") == "spectrum-x-2tier"
    if spectrum_x and spec.nodes_per_unit > (limit := 128):
        message = f"nodesPerUnit is {spec.nodes_per_unit}; layout spectrum-x-2tier numbers {limit} hosts in a unit"
        yield Problem("unit-too-large", message, ("spec", "nodesPerUnit"))


def _check_names(spec: FabricSpec) -> Iterator[Problem]:
    first_rails: dict[str, int] = {}
    for rail in range(len(spec.rails)):
        name = choose_netdev(spec, rail)
        if reason := explain_bad_interface_name(name):
            yield Problem(*reason, ("spec", "names", "netdev"))
            return
        if first_rails.setdefault(name, rail) != rail:
            message = (
                f"rails {first_rails[name]} and {rail} are both called {name!r}; a host has one interface of each name"
            )
            yield Problem("duplicate-name", message, ("spec", "rails", rail, "name"))
