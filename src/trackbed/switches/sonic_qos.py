"""SONiC's stock QoS maps, and those that agree with the hosts.

Stock: files/build_templates/qos_config.j2 of github.com/sonic-net/sonic-buildimage, all maps named AZURE. Classes 3 and
4 are lossless, and only DSCP 3 and 4 lead to them: DSCP 26, what RoCE guides mark RDMA with, is class 1 and lossy.

Ours, all named TRACKBED: RDMA's DSCP has the class, queue and priority group of its PFC priority, CNPs have a class of
their own that is served strictly; every other DSCP stays as in stock unless that would be one of these two classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.fabric.plan.plan import QosPlan

STOCK, OURS = "AZURE", "TRACKBED"
CODE_POINTS, CLASSES = 64, 8

_SPECIAL = {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}
STOCK_DSCP = {dscp: _SPECIAL.get(dscp, 1) for dscp in range(CODE_POINTS)}
"""DSCP -> traffic class."""
STOCK_GROUP = {klass: klass if klass in (3, 4, 7) else 0 for klass in range(CLASSES)}
"""Traffic class -> priority group."""
STOCK_WRED = "AZURE_LOSSLESS"
_IDENTITY = {number: number for number in range(CLASSES)}
STOCK_MAPS: Mapping[str, Mapping[int, int]] = {
    "DSCP_TO_TC_MAP": STOCK_DSCP,
    "TC_TO_PRIORITY_GROUP_MAP": STOCK_GROUP,
    "TC_TO_QUEUE_MAP": _IDENTITY,
    "MAP_PFC_PRIORITY_TO_QUEUE": _IDENTITY,
}
"""Table -> its map AZURE."""

STOCK_LOSSLESS = (3, 4)
"""Priorities that stock images have buffers for."""


def cnp_class(qos: QosPlan) -> int:
    """Class of congestion notifications: 6 as in stock, or 7 where RDMA has 6."""
    return 6 if qos.priority != 6 else 7  # noqa: PLR2004 - what the docstring says


def maps(qos: QosPlan) -> dict[str, dict[int, int]]:
    """Table -> our map."""
    priority, cnp = qos.priority, cnp_class(qos)
    rest = 1 if priority != 1 else 0
    dscp = {point: rest if klass in (priority, cnp) else klass for point, klass in STOCK_DSCP.items()}
    group = {klass: priority if klass == priority else int(priority == 0) for klass in range(CLASSES)}
    return {
        "DSCP_TO_TC_MAP": dscp | {qos.dscp: priority, qos.cnp_dscp: cnp},
        "TC_TO_PRIORITY_GROUP_MAP": group,
        "TC_TO_QUEUE_MAP": dict(_IDENTITY),
        "MAP_PFC_PRIORITY_TO_QUEUE": dict(_IDENTITY),
    }


def wred_profile(qos: QosPlan) -> dict[str, str]:
    """The profile of RDMA's queue: stock's thresholds (1 and 2 MiB); without ECN it neither marks nor drops."""
    on = "true" if qos.ecn else "false"
    colours = {
        f"{colour}_{name}": value
        for colour in ("green", "yellow", "red")
        for name, value in (("min_threshold", "1048576"), ("max_threshold", "2097152"), ("drop_probability", "5"))
    }
    enabled = {f"wred_{colour}_enable": on for colour in ("green", "yellow", "red")}
    return {"ecn": "ecn_all" if qos.ecn else "ecn_none"} | colours | enabled
