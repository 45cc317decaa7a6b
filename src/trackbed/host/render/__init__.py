"""The settings of a node as configuration files; only files under Trackbed's own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.render import netplan, networkd, networkmanager

Format = Literal["netplan", "networkd", "networkmanager"]

FORMATS: Mapping[Format, Callable[[NodePlan], dict[str, str]]] = {
    "netplan": netplan.render,
    "networkd": networkd.render,
    "networkmanager": networkmanager.render,
}
"""What writes each format: NodePlan in, {absolute path: content} out."""


def render(node: NodePlan, form: Format) -> dict[str, str]:
    """Content of all files of one format by absolute path."""
    return FORMATS[form](node)


def mode(path: str) -> int:
    """Permissions of a file: netplan and NetworkManager refuse, or complain about, profiles that others can read."""
    return 0o600 if path.startswith(("/etc/netplan/", "/etc/NetworkManager/")) else 0o644
