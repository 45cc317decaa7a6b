"""The settings of a node as configuration files; only files under Trackbed's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.formats import Format
from trackbed.host.render import netplan, networkd, networkmanager

FORMATS: Mapping[Format, Callable[[NodePlan], dict[str, str]]] = {
    "netplan": netplan.render,
    "networkd": networkd.render,
    "networkmanager": networkmanager.render,
}
"""The renderer of each format: NodePlan in, {absolute path: content} out."""


def render(node: NodePlan, output_format: Format) -> dict[str, str]:
    """Return the content of all files of one format by absolute path."""
    return FORMATS[output_format](node)
