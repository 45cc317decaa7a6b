"""A leaf as a part of SONiC's config_db.json, for `config load` (which adds and changes, and deletes nothing).

Schema: github.com/sonic-net/sonic-buildimage, src/sonic-yang-models. BGP takes the tables of the FRR management
framework (`frr_mgmt_framework_config`), because the older daemon knows no unnumbered neighbours; the switch needs one
`config save -y && config reload -y` for the change of daemon. Buffers are not written: they follow from the platform.

`config load` cannot take PFC away from a port that has it; `trackbed render switch --check` finds such a rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.switches.sonic_qos import OURS, STOCK_LOSSLESS, cnp_class, maps, wred_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.plan.plan import QosPlan
    from trackbed.switches.leaf import Leaf, LeafPort

Fields = dict[str, str]
Tables = dict[str, dict[str, Fields]]

LANES = 4
"""Front-panel ports are Ethernet0, Ethernet4 and so on where a port has four lanes."""
FAMILY = {4: "ipv4", 6: "ipv6"}
"""IP version -> address family."""
WATCHDOG = {"action": "drop", "detection_time": "200", "restoration_time": "200"}
"""Milliseconds until a storm of pause frames counts, and until the queue is given back."""


def ports(count: int) -> tuple[str, ...]:
    """Front-panel ports in order: Ethernet0, Ethernet4 and so on."""
    return tuple(f"Ethernet{LANES * number}" for number in range(count))


def render(leaf: Leaf) -> str:
    """The tables as JSON, a table after the other in order of name, ports in order of the front panel."""
    tables = {name: table for name, table in sorted(_tables(leaf).items()) if table}
    return msgspec.json.format(msgspec.json.encode(tables), indent=2).decode() + "\n"


def _tables(leaf: Leaf) -> Tables:
    return _switch(leaf) | (_routed(leaf) if leaf.routed else _bridged(leaf)) | _qos(leaf)


def _switch(leaf: Leaf) -> Tables:
    hosts = {port.name: _port(leaf, f"{port.node} rail {port.rail}") for port in leaf.ports}
    uplinks = {uplink.name: _port(leaf, "spine") for uplink in leaf.uplinks}
    bgp = leaf.routed and leaf.uplinks
    framework = {"docker_routing_config_mode": "unified", "frr_mgmt_framework_config": "true"}
    local = {"hostname": leaf.name} | ({"bgp_asn": str(leaf.asn)} | framework if bgp else {})
    return {"DEVICE_METADATA": {"localhost": local}, "PORT": hosts | uplinks}


def _port(leaf: Leaf, description: str) -> Fields:
    return {"admin_status": "up", "description": description, "mtu": str(leaf.mtu_bytes)}


def _routed(leaf: Leaf) -> Tables:
    interfaces: dict[str, Fields] = {}
    for port in leaf.ports:
        interfaces |= {port.name: {}} | {f"{port.name}|{address}": {} for address in port.addresses}
    for uplink in leaf.uplinks:
        own = {f"{uplink.name}|{uplink.address}": Fields()} if uplink.address else {}
        interfaces |= {uplink.name: {} if own else {"ipv6_use_link_local_only": "enable"}} | own
    return {"INTERFACE": interfaces} | (_bgp(leaf) if leaf.uplinks else {})


def _bgp(leaf: Leaf) -> Tables:
    families = [FAMILY[version] for version in leaf.versions]
    peers = {uplink.spine or uplink.name: uplink for uplink in leaf.uplinks}
    return {
        # RFC 8212 would have FRR announce nothing to another AS without a policy; inside one fabric none is needed.
        "BGP_GLOBALS": {
            "default": {
                "ebgp_requires_policy": "false",
                "local_asn": str(leaf.asn),
                "router_id": leaf.router_id,
            }
        },
        "BGP_GLOBALS_AF": {f"default|{family}_unicast": {"max_ebgp_paths": "64"} for family in families},
        "BGP_NEIGHBOR": {f"default|{peer}": _neighbour(uplink.address) for peer, uplink in peers.items()},
        "BGP_NEIGHBOR_AF": {
            f"default|{peer}|{family}_unicast": {"admin_status": "true"} for peer in peers for family in families
        },
        "ROUTE_REDISTRIBUTE": {f"default|connected|bgp|{family}": {} for family in families},
    }


def _neighbour(address: str) -> Fields:
    return {"local_addr": address.partition("/")[0], "peer_type": "external"} if address else {"peer_type": "external"}


def _bridged(leaf: Leaf) -> Tables:
    interfaces: dict[str, Fields] = {}
    members = {f"Vlan{port.vlan}|{port.name}": {"tagging_mode": "untagged"} for port in leaf.ports}
    for vlan in leaf.vlans:
        name = f"Vlan{vlan.number}"
        members |= {f"{name}|{uplink.name}": {"tagging_mode": "tagged"} for uplink in leaf.uplinks}
        if vlan.gateways:
            interfaces |= {name: {}} | {f"{name}|{gateway}": {} for gateway in vlan.gateways}
    vlans = {f"Vlan{vlan.number}": {"mtu": str(leaf.mtu_bytes), "vlanid": str(vlan.number)} for vlan in leaf.vlans}
    return {"VLAN": vlans, "VLAN_INTERFACE": interfaces, "VLAN_MEMBER": members}


def _qos(leaf: Leaf) -> Tables:
    qos, names = leaf.qos, [*(port.name for port in leaf.ports), *(uplink.name for uplink in leaf.uplinks)]
    tables: Tables = {table: {OURS: _text(one)} for table, one in maps(qos).items()}
    if qos.pfc and qos.priority not in STOCK_LOSSLESS:
        tables["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {OURS: _text({qos.priority: qos.priority})}
    return tables | {
        "PFC_WD": _watchdog(leaf.ports) if qos.pfc else {},
        "PORT_QOS_MAP": {name: _port_map(qos) for name in names},
        "QUEUE": {key: fields for name in names for key, fields in _queues(name, qos)},
        "SCHEDULER": {f"{OURS}_CNP": {"type": "STRICT"}, f"{OURS}_RDMA": {"type": "DWRR", "weight": "50"}},
        "WRED_PROFILE": {f"{OURS}_RDMA": wred_profile(qos)},
    }


def _text(one: dict[int, int]) -> Fields:
    return {str(key): str(value) for key, value in sorted(one.items())}


def _watchdog(hosts: tuple[LeafPort, ...]) -> dict[str, Fields]:
    return {"GLOBAL": {"POLL_INTERVAL": "200"}} | {port.name: dict(WATCHDOG) for port in hosts}


def _port_map(qos: QosPlan) -> Fields:
    names = dict.fromkeys(("dscp_to_tc_map", "pfc_to_queue_map", "tc_to_pg_map", "tc_to_queue_map"), OURS)
    if not qos.pfc:
        return names
    if qos.priority not in STOCK_LOSSLESS:
        names["pfc_to_pg_map"] = OURS
    return names | {"pfc_enable": str(qos.priority), "pfcwd_sw_enable": str(qos.priority)}


def _queues(name: str, qos: QosPlan) -> Iterator[tuple[str, Fields]]:
    yield f"{name}|{qos.priority}", {"scheduler": f"{OURS}_RDMA", "wred_profile": f"{OURS}_RDMA"}
    yield f"{name}|{cnp_class(qos)}", {"scheduler": f"{OURS}_CNP"}
