"""Reader of SONiC's config_db.json; an undefined map named AZURE is the stock map.

The tables from DSCP to pause frame: DSCP_TO_TC_MAP has the traffic class, TC_TO_PRIORITY_GROUP_MAP the priority group,
whose number is in pause frames, TC_TO_QUEUE_MAP the queue, and MAP_PFC_PRIORITY_TO_QUEUE the queue that a pause frame
holds back. A port without a map puts everything into class 0.
"""

from typing import Any

import msgspec

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.port_config import PortConfig, Treatment, UnreadableError, normalize_address, parse_number
from trackbed.switches.sonic.qos import CLASSES, STOCK, STOCK_MAPS, STOCK_WRED

Tables = dict[str, dict[str, dict[str, Any]]]


class SonicConfig(msgspec.Struct, frozen=True):
    """The tables of a configuration, and three of them indexed by port, so that 100,000 ports are read in seconds."""

    tables: Tables
    addresses: dict[str, frozenset[str]]
    """Port or VLAN interface -> its addresses."""
    vlans: dict[str, int]
    """Port -> its untagged VLAN."""
    queues: dict[tuple[str, int], dict[str, Any]]
    """(port, queue) -> row; a key of the table may name several ports and queues, as in Ethernet0,Ethernet4|3-4."""


DEFAULT_MTU_BYTES = 9100
"""MTU of a port without a setting (sonic-port.yang)."""
_MARKS_GREEN = frozenset({"ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"})


def parse(raw: bytes) -> SonicConfig:
    """Parse a configuration.

    Raises:
        UnreadableError: it is not JSON, or has no table PORT.
    """
    try:
        data = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError(f"it is not JSON: {error}") from error
    tables = {name: _select_object_rows(table) for name, table in data.items()} if isinstance(data, dict) else {}
    if not tables.get("PORT"):
        raise UnreadableError("it has no table PORT; give the switch's whole config_db.json")
    return SonicConfig(tables, _index_addresses(tables), _index_vlans(tables), _index_queues(tables))


def _select_object_rows(table: object) -> dict[str, dict[str, Any]]:
    """Return the rows of a table that are objects; empty if the table is not an object."""
    return {key: row for key, row in table.items() if isinstance(row, dict)} if isinstance(table, dict) else {}


def _index_addresses(tables: Tables) -> dict[str, frozenset[str]]:
    """Return port or VLAN interface -> its addresses."""
    addresses: dict[str, frozenset[str]] = {}
    for table in ("INTERFACE", "VLAN_INTERFACE"):
        for key in tables.get(table, {}):
            owner, _, address = key.partition("|")
            if address:
                addresses[owner] = addresses.get(owner, frozenset()) | {normalize_address(address)}
    return addresses


def _index_vlans(tables: Tables) -> dict[str, int]:
    """Return port -> its untagged VLAN."""
    vlans: dict[str, int] = {}
    for key, row in tables.get("VLAN_MEMBER", {}).items():
        vlan, _, member = key.partition("|")
        if row.get("tagging_mode") == "untagged":
            vlans[member] = parse_number(vlan.removeprefix("Vlan"), 0)
    return vlans


def _index_queues(tables: Tables) -> dict[tuple[str, int], dict[str, Any]]:
    """Return (port, queue) -> its row in table QUEUE."""
    queues: dict[tuple[str, int], dict[str, Any]] = {}
    for key, row in tables.get("QUEUE", {}).items():
        owners, _, span = key.rpartition("|")
        low, _, high = span.partition("-")
        for queue in range(parse_number(low, CLASSES), min(parse_number(high or low, -1), CLASSES - 1) + 1):
            for owner in owners.split(","):
                queues[owner, queue] = queues.get((owner, queue), {}) | row
    return queues


def read_hostname(config: SonicConfig) -> str:
    """Return the switch's host name; empty if it has none."""
    return str(_get_row(config, "DEVICE_METADATA", "localhost").get("hostname", ""))


def read_port(config: SonicConfig, name: str, qos: QosPlan) -> PortConfig | None:
    """Return the settings of one port; None if the switch has no such port."""
    row = config.tables["PORT"].get(name)
    if row is None:
        return None
    return PortConfig(
        mtu_bytes=parse_number(row.get("mtu"), DEFAULT_MTU_BYTES),
        addresses=config.addresses.get(name, frozenset()),
        vlan=config.vlans.get(name, 0),
        rdma=_read_treatment(config, name, qos.dscp),
        cnp=_read_treatment(config, name, qos.cnp_dscp),
    )


def read_gateways(config: SonicConfig, vlan: int) -> frozenset[str]:
    """Return the addresses of a VLAN interface."""
    return config.addresses.get(f"Vlan{vlan}", frozenset())


def _get_row(config: SonicConfig, table: str, key: str) -> dict[str, Any]:
    """Return a row of a table; empty if there is none."""
    return config.tables.get(table, {}).get(key, {})


def _read_treatment(config: SonicConfig, port_name: str, dscp: int) -> Treatment:
    """Return the treatment of packets with a DSCP on a port."""
    maps = _get_row(config, "PORT_QOS_MAP", "global") | _get_row(config, "PORT_QOS_MAP", port_name)
    klass = _look_up_number(config, "DSCP_TO_TC_MAP", maps.get("dscp_to_tc_map"), dscp, 0)
    group = _look_up_number(config, "TC_TO_PRIORITY_GROUP_MAP", maps.get("tc_to_pg_map"), klass, 0)
    queue = _look_up_number(config, "TC_TO_QUEUE_MAP", maps.get("tc_to_queue_map"), klass, klass)
    paused_queue = _look_up_number(config, "MAP_PFC_PRIORITY_TO_QUEUE", maps.get("pfc_to_queue_map"), group, group)
    queue_row = config.queues.get((port_name, queue), {})
    return Treatment(
        priority=group,
        lossless=str(group) in str(maps.get("pfc_enable", "")).split(",") and paused_queue == queue,
        ecn=_marks_packets(config, _parse_reference(queue_row.get("wred_profile"))),
        strict=_get_row(config, "SCHEDULER", _parse_reference(queue_row.get("scheduler"))).get("type") == "STRICT",
    )


def _parse_reference(reference: object) -> str:
    """Return the name to which a row refers, as NAME or, in older releases, as [TABLE|NAME]."""
    return str(reference or "").removeprefix("[").removesuffix("]").rpartition("|")[2]


def _look_up_number(config: SonicConfig, table: str, reference: object, key: int, default: int) -> int:
    """Return the number for a key in a map of a table, or the default.

    An undefined stock map has the stock values; any other undefined map is empty.
    """
    name = _parse_reference(reference)
    rows = config.tables.get(table, {}).get(name)
    if rows is not None:
        return parse_number(rows.get(str(key)), default)
    return STOCK_MAPS[table].get(key, default) if name == STOCK else default


def _marks_packets(config: SonicConfig, wred_profile: str) -> bool:
    """Return whether a WRED profile marks packets; an undefined stock profile does."""
    rows = config.tables.get("WRED_PROFILE", {}).get(wred_profile)
    return wred_profile == STOCK_WRED if rows is None else rows.get("ecn") in _MARKS_GREEN
