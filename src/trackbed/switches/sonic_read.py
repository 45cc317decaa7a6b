"""What a SONiC config_db.json says; maps that it names AZURE and does not define are the stock ones.

From DSCP to pause frame: DSCP_TO_TC_MAP gives the class, TC_TO_PRIORITY_GROUP_MAP the priority group whose number pause
frames carry, TC_TO_QUEUE_MAP the queue, MAP_PFC_PRIORITY_TO_QUEUE the queue that a pause frame holds back. A port
without a map sends everything to class 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from trackbed.switches.seen import SeenPort, Treatment, UnreadableError, canonical, number
from trackbed.switches.sonic_qos import CLASSES, STOCK, STOCK_MAPS, STOCK_WRED

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import QosPlan

Tables = dict[str, dict[str, dict[str, Any]]]


class Config(msgspec.Struct, frozen=True):
    """A configuration: its tables, and three of them in order of port, so that 100,000 ports are read in seconds."""

    tables: Tables
    addresses: dict[str, frozenset[str]]
    """Addresses of ports and VLAN interfaces."""
    vlans: dict[str, int]
    """Untagged VLAN of a port."""
    queues: dict[tuple[str, int], dict[str, Any]]
    """Row of a port's queue; a key may name several ports and a span of queues, as Ethernet0,Ethernet4|3-4."""


DEFAULT_MTU_BYTES = 9100
"""Of a port that says nothing (sonic-port.yang)."""
_MARKS_GREEN = frozenset({"ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red"})


def parse(raw: bytes) -> Config:
    """The tables of a configuration; UnreadableError if it has none."""
    try:
        data = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError(f"it is no JSON: {error}") from error
    tables = {name: _rows(table) for name, table in data.items()} if isinstance(data, dict) else {}
    if not tables.get("PORT"):
        raise UnreadableError("it has no table PORT; give the switch's whole config_db.json")
    return Config(tables, _addresses(tables), _vlans(tables), _queues(tables))


def _rows(table: object) -> dict[str, dict[str, Any]]:
    return {key: row for key, row in table.items() if isinstance(row, dict)} if isinstance(table, dict) else {}


def _addresses(tables: Tables) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for table in ("INTERFACE", "VLAN_INTERFACE"):
        for key in tables.get(table, {}):
            owner, _, address = key.partition("|")
            if address:
                found[owner] = found.get(owner, frozenset()) | {canonical(address)}
    return found


def _vlans(tables: Tables) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, row in tables.get("VLAN_MEMBER", {}).items():
        vlan, _, member = key.partition("|")
        if row.get("tagging_mode") == "untagged":
            found[member] = number(vlan.removeprefix("Vlan"), 0)
    return found


def _queues(tables: Tables) -> dict[tuple[str, int], dict[str, Any]]:
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for key, row in tables.get("QUEUE", {}).items():
        owners, _, span = key.rpartition("|")
        low, _, high = span.partition("-")
        for queue in range(number(low, CLASSES), min(number(high or low, -1), CLASSES - 1) + 1):
            for owner in owners.split(","):
                found[owner, queue] = found.get((owner, queue), {}) | row
    return found


def hostname(config: Config) -> str:
    """The switch's own name, empty if it says none."""
    return str(_row(config, "DEVICE_METADATA", "localhost").get("hostname", ""))


def port(config: Config, name: str, qos: QosPlan) -> SeenPort | None:
    """What the switch does with one port; None if it has no such port."""
    own = config.tables["PORT"].get(name)
    if own is None:
        return None
    return SeenPort(
        mtu_bytes=number(own.get("mtu"), DEFAULT_MTU_BYTES),
        addresses=config.addresses.get(name, frozenset()),
        vlan=config.vlans.get(name, 0),
        rdma=_treatment(config, name, qos.dscp),
        cnp=_treatment(config, name, qos.cnp_dscp),
    )


def gateways(config: Config, vlan: int) -> frozenset[str]:
    """Addresses of a VLAN interface."""
    return config.addresses.get(f"Vlan{vlan}", frozenset())


def _row(config: Config, table: str, key: str) -> dict[str, Any]:
    return config.tables.get(table, {}).get(key, {})


def _treatment(config: Config, name: str, dscp: int) -> Treatment:
    maps = _row(config, "PORT_QOS_MAP", "global") | _row(config, "PORT_QOS_MAP", name)
    klass = _mapped(config, "DSCP_TO_TC_MAP", maps.get("dscp_to_tc_map"), dscp, 0)
    group = _mapped(config, "TC_TO_PRIORITY_GROUP_MAP", maps.get("tc_to_pg_map"), klass, 0)
    queue = _mapped(config, "TC_TO_QUEUE_MAP", maps.get("tc_to_queue_map"), klass, klass)
    held = _mapped(config, "MAP_PFC_PRIORITY_TO_QUEUE", maps.get("pfc_to_queue_map"), group, group)
    own = config.queues.get((name, queue), {})
    return Treatment(
        priority=group,
        lossless=str(group) in str(maps.get("pfc_enable", "")).split(",") and held == queue,
        ecn=_marks(config, _name(own.get("wred_profile"))),
        strict=_row(config, "SCHEDULER", _name(own.get("scheduler"))).get("type") == "STRICT",
    )


def _name(reference: object) -> str:
    """A reference by name; older releases write [TABLE|NAME]."""
    return str(reference or "").removeprefix("[").removesuffix("]").rpartition("|")[2]


def _mapped(config: Config, table: str, reference: object, key: int, otherwise: int) -> int:
    """What a map makes of one number; a stock map that is not defined is the stock one, an unknown map maps nothing."""
    name = _name(reference)
    rows = config.tables.get(table, {}).get(name)
    if rows is not None:
        return number(rows.get(str(key)), otherwise)
    return STOCK_MAPS[table].get(key, otherwise) if name == STOCK else otherwise


def _marks(config: Config, profile: str) -> bool:
    rows = config.tables.get("WRED_PROFILE", {}).get(profile)
    return profile == STOCK_WRED if rows is None else rows.get("ecn") in _MARKS_GREEN
