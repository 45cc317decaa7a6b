"""Reader of the BGP policies in the tables of SONiC's FRR management framework.

FRR discards the routes of an eBGP neighbour that has no policy (RFC 8212). Nothing in these tables turns that off:
neither frrcfgd nor its templates (sonic-buildimage, src/sonic-frr-mgmt-framework) know `bgp ebgp-requires-policy`. The
older daemon, bgpcfgd, does turn it off (dockers/docker-fpm-frr, bgpd.main.conf.j2).
"""

from typing import Any

from trackbed.switches.sonic.read import SonicConfig

Row = dict[str, Any]

_VRF = "default"
_FAMILIES = ("ipv4_unicast", "ipv6_unicast")
_FILTERS = ("route_map", "prefix_list", "filter_list")
"""Fields of a policy, without _in and _out."""
_INACTIVE = frozenset({"down", "false"})


def list_discarding_peers(config: SonicConfig) -> frozenset[str]:
    """Return the eBGP neighbours of the default VRF, by address or port, whose routes FRR discards."""
    metadata = config.tables.get("DEVICE_METADATA", {}).get("localhost", {})
    if str(metadata.get("frr_mgmt_framework_config")).lower() != "true":
        return frozenset()
    peer_rows, group_rows = (_index_families(config, table) for table in ("BGP_NEIGHBOR_AF", "BGP_PEER_GROUP_AF"))
    peers = set()
    for key, row in config.tables.get("BGP_NEIGHBOR", {}).items():
        vrf, _, peer = key.partition("|")
        group = str(row.get("peer_group_name", ""))
        if vrf == _VRF and _is_external(config, group, row):
            families = (group_rows.get((group, name), {}) | peer_rows.get((peer, name), {}) for name in _FAMILIES)
            if any(family and _lacks_policy(family) for family in families):
                peers.add(peer)
    return frozenset(peers)


def _index_families(config: SonicConfig, table: str) -> dict[tuple[str, str], Row]:
    """Return (neighbour or peer group, address family) -> row, of the default VRF."""
    keys = {key: key.split("|") for key in config.tables.get(table, {})}
    return {
        (words[1], words[2]): config.tables[table][key]
        for key, words in keys.items()
        if len(words) == 3 and words[0] == _VRF  # noqa: PLR2004 - VRF, neighbour and family
    }


def _is_external(config: SonicConfig, group: str, row: Row) -> bool:
    """Return whether a neighbour belongs to another AS."""
    fields = config.tables.get("BGP_PEER_GROUP", {}).get(f"{_VRF}|{group}", {}) | row
    local_asn = config.tables.get("BGP_GLOBALS", {}).get(_VRF, {}).get("local_asn")
    return fields.get("peer_type") != "internal" and ("asn" not in fields or fields["asn"] != local_asn)


def _lacks_policy(family: Row) -> bool:
    """Return whether an active address family has no policy in a direction."""
    filters = (any(family.get(f"{name}_{direction}") for name in _FILTERS) for direction in ("in", "out"))
    return family.get("admin_status") not in _INACTIVE and not all(filters)
