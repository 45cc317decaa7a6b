"""The formats of a host's network configuration, and the names and modes of Trackbed's files in them."""

from __future__ import annotations

from typing import Literal

Format = Literal["netplan", "networkd", "networkmanager", "ifupdown"]

IFUPDOWN_FILE = "/etc/network/interfaces.d/trackbed"
"""The file in format `ifupdown`; /etc/network/interfaces must source it."""

NETWORK_FILES = (
    ("/etc/netplan", "90-trackbed.yaml"),
    ("/etc/netplan", "91-trackbed-entries.yaml"),
    ("/etc/systemd/network", "10-trackbed-*.link"),
    ("/etc/systemd/network", "10-trackbed-*.network"),
    ("/etc/systemd/network", "10-netplan-*.network.d/90-trackbed.conf"),
    ("/etc/NetworkManager/system-connections", "trackbed-*.nmconnection"),
    ("/etc/network/interfaces.d", "trackbed"),
    ("/etc/sysctl.d", "90-trackbed.conf"),
    ("/etc/iproute2/rt_tables.d", "trackbed.conf"),
)
"""Folder and pattern of every file that `host.render` and `host.transaction.netplan_entries` can write."""


def get_file_mode(path: str) -> int:
    """Return the permissions of a file; netplan and NetworkManager reject profiles that others can read."""
    return 0o600 if path.startswith(("/etc/netplan/", "/etc/NetworkManager/")) else 0o644
