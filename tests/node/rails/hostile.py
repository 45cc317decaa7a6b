"""What a pod with NET_ADMIN does in its network namespace, and what the host shows of its own one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from socket import AF_INET
from typing import Any

from tests.node.rails.node import Inside, inside

_SECONDS = 60.0
_KEPT = ("ifname", "link_index", "link_netnsid", "address", "mtu", "group", "txqlen", "ifalias", "altnames")
"""Fields of `ip -json link` that a pod can change, or that identify the device."""
_TRANSIENT_FLAGS = {"LOWER_UP", "NO-CARRIER", "M-DOWN"}
"""Flags that follow from the other end of the cable."""


def run_ip(netns: Path, *words: object) -> None:
    """Run `ip` in a network namespace; it must succeed."""
    completed = try_ip(netns, *words)
    assert completed.returncode == 0, completed.stderr


def try_ip(netns: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `ip` in a network namespace."""
    command = ["nsenter", f"--net={netns}", "ip", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)


def read_links(netns: Path) -> dict[str, dict[str, Any]]:
    """Return what a pod can change of each interface of a network namespace, by name, without `lo`."""
    listing = json.loads(try_ip(netns, "-json", "-details", "link", "show").stdout)
    return {link["ifname"]: _read_kept_fields(link) for link in listing if link["ifname"] != "lo"}


def _read_kept_fields(link: dict[str, Any]) -> dict[str, Any]:
    kept = {field: link.get(field) for field in _KEPT}
    kind = (link.get("linkinfo") or {}).get("info_kind")
    flags = sorted(set(link["flags"]) - _TRANSIENT_FLAGS)
    return kept | {"flags": flags, "linkinfo": kind, "promiscuity": link.get("promiscuity")}


def read_addressing(netns: Path) -> tuple[set[object], set[object], set[object]]:
    """Return the addresses, routes and rules of a network namespace, by the names of their interfaces."""
    state: Inside = inside(netns)
    names = {link.index: name for name, link in state.links.items()}
    return (
        {(names.get(a.index), a.family, a.address, a.prefix) for a in state.addresses if a.scope == 0},
        {
            (names.get(r.oif), r.family, r.table, r.dst, r.prefix, r.gateway, r.prefsrc, r.metric, r.type)
            for r in state.routes
            if r.family == AF_INET
        },
        set(state.rules),
    )
