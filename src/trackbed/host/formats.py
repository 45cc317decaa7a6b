"""The formats in which hosts configure their network; `host.render` writes them, before anything is sent to a host."""

from __future__ import annotations

from typing import Literal

Format = Literal["netplan", "networkd", "networkmanager"]


def choose_mode(path: str) -> int:
    """Return the permissions of a file: netplan and NetworkManager complain about profiles that others can read."""
    return 0o600 if path.startswith(("/etc/netplan/", "/etc/NetworkManager/")) else 0o644
