"""SONiC's stock QoS maps, and Trackbed's maps, which match the settings of hosts.

The stock maps are all named AZURE (files/build_templates/qos_config.j2 of github.com/sonic-net/sonic-buildimage).
Classes 3 and 4 are lossless, but only DSCP 3 and 4 are mapped to them. DSCP 26, which RoCE guides use for RDMA, is
mapped to the lossy class 1.

Trackbed's maps are all named TRACKBED. RDMA's DSCP has the class, queue and priority group of its PFC priority. CNPs
have a class of their own with strict priority. Every other DSCP has its stock class, unless that is one of these two.
"""

from collections.abc import Mapping

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.leaf import choose_cnp_class

STOCK, OURS = "AZURE", "TRACKBED"
CODE_POINTS, CLASSES = 64, 8

_SPECIAL = {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}
STOCK_DSCP = {dscp: _SPECIAL.get(dscp, 1) for dscp in range(CODE_POINTS)}
"""DSCP -> traffic class in the stock map."""
STOCK_GROUP = {klass: klass if klass in (3, 4, 7) else 0 for klass in range(CLASSES)}
"""Traffic class -> priority group in the stock map."""
STOCK_WRED = "AZURE_LOSSLESS"
_IDENTITY = {number: number for number in range(CLASSES)}
STOCK_MAPS: Mapping[str, Mapping[int, int]] = {
    "DSCP_TO_TC_MAP": STOCK_DSCP,
    "TC_TO_PRIORITY_GROUP_MAP": STOCK_GROUP,
    "TC_TO_QUEUE_MAP": _IDENTITY,
    "MAP_PFC_PRIORITY_TO_QUEUE": _IDENTITY,
}
"""Name of a table -> its stock map."""

STOCK_LOSSLESS = (3, 4)
"""Priorities that have lossless buffers in stock images."""


def build_maps(qos: QosPlan) -> dict[str, dict[int, int]]:
    """Return name of a table -> Trackbed's map for it."""
    priority, cnp = qos.priority, choose_cnp_class(qos)
    fallback = 1 if priority != 1 else 0
    dscp = {point: fallback if klass in (priority, cnp) else klass for point, klass in STOCK_DSCP.items()}
    group = {klass: priority if klass == priority else int(priority == 0) for klass in range(CLASSES)}
    return {
        "DSCP_TO_TC_MAP": dscp | {qos.dscp: priority, qos.cnp_dscp: cnp},
        "TC_TO_PRIORITY_GROUP_MAP": group,
        "TC_TO_QUEUE_MAP": dict(_IDENTITY),
        "MAP_PFC_PRIORITY_TO_QUEUE": dict(_IDENTITY),
    }


def build_wred_profile(qos: QosPlan) -> dict[str, str]:
    """Return the WRED profile of RDMA's queue, with the stock thresholds of 1 and 2 MiB.

    If ECN is off, the profile neither marks nor drops packets.
    """
    on = "true" if qos.ecn else "false"
    colours = {
        f"{colour}_{name}": value
        for colour in ("green", "yellow", "red")
        for name, value in (("min_threshold", "1048576"), ("max_threshold", "2097152"), ("drop_probability", "5"))
    }
    enabled = {f"wred_{colour}_enable": on for colour in ("green", "yellow", "red")}
    return {"ecn": "ecn_all" if qos.ecn else "ecn_none"} | colours | enabled
