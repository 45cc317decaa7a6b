"""The settings of a node as configuration files under Trackbed's own names."""

from collections.abc import Callable, Mapping

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.formats import Format
from trackbed.host.render import ifupdown, netplan, networkd, networkmanager

FORMATS: Mapping[Format, Callable[[NodePlan], dict[str, str]]] = {
    "netplan": netplan.render,
    "networkd": networkd.render,
    "networkmanager": networkmanager.render,
    "ifupdown": ifupdown.render,
}
"""The renderer of each format: NodePlan in, {absolute path: content} out."""
