"""Renderer of a leaf as part of SONiC's config_db.json, for `config load`, which adds and changes entries only.

Schema: github.com/sonic-net/sonic-buildimage, src/sonic-yang-models. BGP uses the tables of the FRR management
framework (`frr_mgmt_framework_config`), because the older daemon does not support unnumbered neighbours; the change of
daemon needs one `config save -y && config reload -y`. Buffers are not rendered, because they depend on the platform.

FRR neither accepts nor announces routes of another AS without a policy (RFC 8212), and BGP_GLOBALS has no field that
turns this off, so each neighbour has a route map that permits all. A family's admin_status is `true`, which frrcfgd of
all releases reads; the `up` of the YANG model (sonic-bgp-common.yang) is inactive for 202411 and earlier
(sonic-buildimage #21697).

`config load` cannot remove PFC from a port that has it; `trackbed render switch --check` reports such a remnant.
"""

from collections.abc import Iterator, Mapping

import msgspec

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.leaf import Leaf, LeafPort, choose_cnp_class
from trackbed.switches.sonic.qos import OURS, STOCK_LOSSLESS, build_maps, build_wred_profile

Fields = Mapping[str, str | list[str]]
Tables = dict[str, Mapping[str, Fields]]

LANES = 4
"""Lanes of a front-panel port; the number in its name is that of its first lane: Ethernet0, Ethernet4 and so on."""
FAMILY = {4: "ipv4", 6: "ipv6"}
"""IP version -> address family."""
POLICY_SEQUENCE = 10
"""Number of the route map's only statement."""
WATCHDOG = {"action": "drop", "detection_time": "200", "restoration_time": "200"}
"""PFC watchdog: after `detection_time` ms of pause frames a queue drops, after `restoration_time` ms without them it
is restored."""


def list_ports(count: int) -> tuple[str, ...]:
    """Return the names of the first `count` front-panel ports: Ethernet0, Ethernet4 and so on."""
    return tuple(f"Ethernet{LANES * number}" for number in range(count))


def render(leaf: Leaf) -> str:
    """Render a leaf's tables as JSON; tables are sorted by name, ports are in the order of the front panel."""
    tables = {name: table for name, table in sorted(_build_tables(leaf).items()) if table}
    return msgspec.json.format(msgspec.json.encode(tables), indent=2).decode() + "\n"


def _build_tables(leaf: Leaf) -> Tables:
    connectivity = _build_routing_tables(leaf) if leaf.is_routed else _build_bridging_tables(leaf)
    return _build_port_tables(leaf) | connectivity | _build_qos_tables(leaf)


def _build_port_tables(leaf: Leaf) -> Tables:
    hosts = {port.name: _build_port_fields(leaf, f"{port.node} rail {port.rail}") for port in leaf.ports}
    uplinks = {uplink.name: _build_port_fields(leaf, "spine") for uplink in leaf.uplinks}
    has_bgp = leaf.is_routed and leaf.uplinks
    framework = {"docker_routing_config_mode": "unified", "frr_mgmt_framework_config": "true"}
    local = {"hostname": leaf.name} | ({"bgp_asn": str(leaf.asn)} | framework if has_bgp else {})
    return {"DEVICE_METADATA": {"localhost": local}, "PORT": hosts | uplinks}


def _build_port_fields(leaf: Leaf, description: str) -> Fields:
    return {"admin_status": "up", "description": description, "mtu": str(leaf.mtu_bytes)}


def _build_routing_tables(leaf: Leaf) -> Tables:
    interfaces: dict[str, Fields] = {}
    for port in leaf.ports:
        interfaces |= {port.name: {}} | {f"{port.name}|{address}": {} for address in port.addresses}
    for uplink in leaf.uplinks:
        addresses: dict[str, Fields] = {f"{uplink.name}|{uplink.address}": {}} if uplink.address else {}
        interfaces |= {uplink.name: {} if addresses else {"ipv6_use_link_local_only": "enable"}} | addresses
    return {"INTERFACE": interfaces} | (_build_bgp_tables(leaf) if leaf.uplinks else {})


def _build_bgp_tables(leaf: Leaf) -> Tables:
    families = [FAMILY[version] for version in leaf.ip_versions]
    family_fields: Fields = {"admin_status": "true", "route_map_in": [OURS], "route_map_out": [OURS]}
    peers = {uplink.spine or uplink.name: uplink for uplink in leaf.uplinks}
    return {
        # Spines may have different AS numbers; without relaxed multipath one of them would carry all traffic.
        "BGP_GLOBALS": {
            "default": {
                "load_balance_mp_relax": "true",
                "local_asn": str(leaf.asn),
                "router_id": leaf.router_id,
            }
        },
        "BGP_GLOBALS_AF": {f"default|{family}_unicast": {"max_ebgp_paths": "64"} for family in families},
        "BGP_NEIGHBOR": {f"default|{peer}": _build_neighbour_fields(uplink.address) for peer, uplink in peers.items()},
        "BGP_NEIGHBOR_AF": {f"default|{peer}|{family}_unicast": family_fields for peer in peers for family in families},
        "ROUTE_MAP": {f"{OURS}|{POLICY_SEQUENCE}": {"route_operation": "permit"}},
        "ROUTE_MAP_SET": {OURS: {}},
        "ROUTE_REDISTRIBUTE": {f"default|connected|bgp|{family}": {} for family in families},
    }


def _build_neighbour_fields(address: str) -> Fields:
    return {"local_addr": address.partition("/")[0], "peer_type": "external"} if address else {"peer_type": "external"}


def _build_bridging_tables(leaf: Leaf) -> Tables:
    interfaces: dict[str, Fields] = {}
    members = {f"Vlan{port.vlan}|{port.name}": {"tagging_mode": "untagged"} for port in leaf.ports}
    for vlan in leaf.vlans:
        name = f"Vlan{vlan.number}"
        members |= {f"{name}|{uplink.name}": {"tagging_mode": "tagged"} for uplink in leaf.uplinks}
        if vlan.gateways:
            interfaces |= {name: {}} | {f"{name}|{gateway}": {} for gateway in vlan.gateways}
    vlans = {f"Vlan{vlan.number}": {"mtu": str(leaf.mtu_bytes), "vlanid": str(vlan.number)} for vlan in leaf.vlans}
    return {"VLAN": vlans, "VLAN_INTERFACE": interfaces, "VLAN_MEMBER": members}


def _build_qos_tables(leaf: Leaf) -> Tables:
    qos, names = leaf.qos, [*(port.name for port in leaf.ports), *(uplink.name for uplink in leaf.uplinks)]
    tables: Tables = {table: {OURS: _to_map_fields(mapping)} for table, mapping in build_maps(qos).items()}
    if qos.pfc and qos.priority not in STOCK_LOSSLESS:
        tables["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {OURS: _to_map_fields({qos.priority: qos.priority})}
    return tables | {
        "PFC_WD": _build_watchdog_rows(leaf.ports) if qos.pfc else {},
        "PORT_QOS_MAP": {name: _build_port_qos_fields(qos) for name in names},
        "QUEUE": {key: fields for name in names for key, fields in _iter_queue_rows(name, qos)},
        "SCHEDULER": {f"{OURS}_CNP": {"type": "STRICT"}, f"{OURS}_RDMA": {"type": "DWRR", "weight": "50"}},
        "WRED_PROFILE": {f"{OURS}_RDMA": build_wred_profile(qos)},
    }


def _to_map_fields(mapping: dict[int, int]) -> Fields:
    return {str(key): str(value) for key, value in sorted(mapping.items())}


def _build_watchdog_rows(ports: tuple[LeafPort, ...]) -> Mapping[str, Fields]:
    return {"GLOBAL": {"POLL_INTERVAL": "200"}} | {port.name: dict(WATCHDOG) for port in ports}


def _build_port_qos_fields(qos: QosPlan) -> Fields:
    names = dict.fromkeys(("dscp_to_tc_map", "pfc_to_queue_map", "tc_to_pg_map", "tc_to_queue_map"), OURS)
    if not qos.pfc:
        return names
    if qos.priority not in STOCK_LOSSLESS:
        names["pfc_to_pg_map"] = OURS
    return names | {"pfc_enable": str(qos.priority), "pfcwd_sw_enable": str(qos.priority)}


def _iter_queue_rows(port_name: str, qos: QosPlan) -> Iterator[tuple[str, Fields]]:
    yield f"{port_name}|{qos.priority}", {"scheduler": f"{OURS}_RDMA", "wred_profile": f"{OURS}_RDMA"}
    yield f"{port_name}|{choose_cnp_class(qos)}", {"scheduler": f"{OURS}_CNP"}
