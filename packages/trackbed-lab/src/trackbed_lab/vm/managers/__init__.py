"""Network managers of emulated servers: each is a module with the manager's packages, units and files in factory state.

    FILE          one of the files that `trackbed apply` writes for this manager
    PACKAGES      Debian packages besides the usual tools
    UNITS         units that are enabled
    render_files  a new server's files of the manager: path -> content; the management NIC is configured in them

To add a manager, write its module and its line in `NAMES`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

NAMES = ("networkd", "netplan", "networkmanager", "ifupdown")


class ManagerSetup(Protocol):
    """The interface of a manager's module."""

    FILE: str
    PACKAGES: tuple[str, ...]
    UNITS: tuple[str, ...]

    def render_files(self, number: int, rails: int) -> Mapping[str, str]:
        """Return the files of server `number` with `rails` NICs besides the management NIC."""


MANAGERS: Mapping[str, ManagerSetup] = {
    name: cast("ManagerSetup", import_module(f"{__name__}.{name}")) for name in NAMES
}
"""All managers by name."""
