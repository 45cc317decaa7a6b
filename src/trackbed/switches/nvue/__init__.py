"""Cumulus Linux, configured by NVUE commands.

render   leaf -> configuration
tree     configuration -> tree of words
read     tree of words -> settings of its ports
"""

from collections.abc import Mapping

from trackbed.switches.dialect import Dialect
from trackbed.switches.nvue import read, render
from trackbed.switches.nvue.tree import Tree

_FIXES = {
    "no-port": "check --ports against the cabling",
    "address": "nv set interface {port} {family} address {address}",
    "gateway": "nv set interface vlan{vlan} {family} address {address}",
    "vlan": "nv set interface {port} bridge domain br_default access {vlan}",
    "mtu": "nv set interface {port} link mtu {mtu}",
    "class": "nv set qos roce, then nv set qos mapping default-global dscp {dscp} switch-priority {priority}",
    "pfc-on": "nv set qos roce mode lossless, and nv set qos pfc default-global switch-priority {priority}",
    "pfc-off": "nv set qos roce mode lossy",
    "ecn-on": "nv set qos roce, and set ecn enabled below qos congestion-control default-global",
    "ecn-off": "nv set qos congestion-control default-global traffic-class 3 ecn disabled",
    "cnp": "nv set qos roce, then nv set qos mapping default-global dscp {cnp_dscp} switch-priority 6",
}
_FORMER_FIXES = _FIXES | {
    "address": "nv set interface {port} ip address {address}",
    "gateway": "nv set interface vlan{vlan} ip address {address}",
    "ecn-on": "nv set qos roce, and set ecn enable below qos congestion-control default-global",
    "ecn-off": "nv set qos congestion-control default-global traffic-class 3 ecn disable",
}
"""Fixes in the commands of Cumulus Linux 5.14 and earlier."""


def _choose_fixes(tree: Tree) -> Mapping[str, str]:
    """Return the fixes in the commands that the configuration has."""
    return _FORMER_FIXES if read.has_former_commands(tree) else _FIXES


DIALECT = Dialect(
    name="nvue",
    suffix=".nv",
    allows_concatenation=True,
    recognizes=lambda _: True,
    list_ports=render.list_ports,
    render=render.render,
    parse=read.parse,
    read_hostname=read.read_hostname,
    read_port=read.read_port,
    read_gateways=read.read_gateways,
    fixes=_FIXES,
    choose_fixes=_choose_fixes,
)
