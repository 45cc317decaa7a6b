"""The supported network operating systems: port names, rendering of a leaf, and reading of a configuration.

Another system needs two modules like `nvue` and `nvue_read`, and one entry in `DIALECTS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackbed.switches import nvue, nvue_read, sonic, sonic_read
from trackbed.switches.comparison import Mismatch, compare_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trackbed.fabric.plan.plan import QosPlan
    from trackbed.switches.leaf import Leaf
    from trackbed.switches.port_config import PortConfig


@dataclass(frozen=True, slots=True)
class Dialect:
    """One network operating system."""

    name: str
    suffix: str
    """Suffix of a leaf's file name."""
    list_ports: Callable[[int], tuple[str, ...]]
    """Return the first COUNT front-panel ports, the default of --ports."""
    render: Callable[[Leaf], str]
    parse: Callable[[bytes], Any]
    """Parse a configuration into a tree; raises UnreadableError."""
    read_hostname: Callable[[Any], str]
    read_port: Callable[[Any, str, QosPlan], PortConfig | None]
    read_gateways: Callable[[Any, int], frozenset[str]]
    fixes: Mapping[str, str]
    """Code of a mismatch -> fix, with placeholders."""


_NVUE_FIXES = {
    "no-port": "check --ports against the cabling",
    "address": "nv set interface {port} ip address {address}",
    "gateway": "nv set interface vlan{vlan} ip address {address}",
    "vlan": "nv set interface {port} bridge domain br_default access {vlan}",
    "mtu": "nv set interface {port} link mtu {mtu}",
    "class": "nv set qos roce, then nv set qos mapping default-global dscp {dscp} switch-priority {priority}",
    "pfc-on": "nv set qos roce mode lossless, and nv set qos pfc default-global switch-priority {priority}",
    "pfc-off": "nv set qos roce mode lossy",
    "ecn-on": "nv set qos roce, and set ecn enabled below qos congestion-control default-global",
    "ecn-off": "nv set qos congestion-control default-global traffic-class 3 ecn disabled",
    "cnp": "nv set qos roce, then nv set qos mapping default-global dscp {cnp_dscp} switch-priority 6",
}
_SONIC_FIXES = {
    "no-port": "check --ports against the cabling and the port's lanes",
    "address": "config interface ip add {port} {address}",
    "gateway": "config interface ip add Vlan{vlan} {address}",
    "vlan": "config vlan member add -u {vlan} {port}",
    "mtu": "config interface mtu {port} {mtu}",
    "class": "give DSCP_TO_TC_MAP {dscp} a class whose priority group is {priority}; stock maps do so for 3 and 4 only",
    "pfc-on": "set pfc_enable of PORT_QOS_MAP|{port} to {priority}, and map the priority to its own queue",
    "pfc-off": "take {priority} out of pfc_enable of PORT_QOS_MAP|{port}",
    "ecn-on": "give QUEUE|{port}|{priority} a wred_profile with ecn_all",
    "ecn-off": "give QUEUE|{port}|{priority} a wred_profile with ecn_none",
    "cnp": "give DSCP {cnp_dscp} a class of its own whose queue has a scheduler of type STRICT",
}

DIALECTS = {
    "nvue": Dialect(
        "nvue",
        ".nv",
        nvue.list_ports,
        nvue.render,
        nvue_read.parse,
        nvue_read.read_hostname,
        nvue_read.read_port,
        nvue_read.read_gateways,
        _NVUE_FIXES,
    ),
    "sonic": Dialect(
        "sonic",
        ".json",
        sonic.list_ports,
        sonic.render,
        sonic_read.parse,
        sonic_read.read_hostname,
        sonic_read.read_port,
        sonic_read.read_gateways,
        _SONIC_FIXES,
    ),
}
"""Name of a format -> its dialect."""


def detect_dialect(raw: bytes) -> Dialect:
    """Return the dialect of a configuration: SONiC's is a JSON object, everything else is read as NVUE's."""
    return DIALECTS["sonic" if raw.lstrip()[:1] == b"{" else "nvue"]


def find_mismatches(leaf: Leaf, dialect: Dialect, tree: Any) -> list[Mismatch]:  # noqa: ANN401 - the tree's type depends on the dialect
    """Return the mismatches between a switch's configuration and the hosts of this leaf."""
    return compare_leaf(
        leaf,
        lambda name: dialect.read_port(tree, name, leaf.qos),
        lambda vlan: dialect.read_gateways(tree, vlan),
        dialect.fixes,
    )
