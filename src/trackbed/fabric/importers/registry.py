"""The sources of `trackbed import`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackbed.fabric.importers.source import Source

SOURCES = {
    "netplan": ("netplan", "netplan YAML of each host (Ubuntu)."),
    "networkd": ("networkd", ".network, .link and .netdev files of systemd-networkd."),
    "networkmanager": ("networkmanager", "Keyfiles of NetworkManager, ifcfg files of RHEL."),
    "ifcfg": ("networkmanager", "The same; RHEL's network-scripts."),
    "nmstate": ("nmstate", "nmstate YAML, also in objects of kubernetes-nmstate."),
    "l8k": ("l8k", "cluster-config.yaml and topology of NVIDIA's Kubernetes Launch Kit."),
    "rcp": ("rcp", "Configuration of NVIDIA's Reference Configuration Package for Spectrum-X."),
}
"""Name of a source -> (module below this package that defines SOURCE, line of help)."""


def load_source(name: str) -> Source:
    """Import the module of a source and return the source; raises KeyError for an unknown name."""
    source: Source = import_module(f"trackbed.fabric.importers.{SOURCES[name][0]}").SOURCE
    return source
