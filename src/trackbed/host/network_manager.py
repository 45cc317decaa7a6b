"""The network manager that will configure a machine's ports at the next boot: what is enabled, and holds the ports.

systemd starts the units that have a link in a folder `*.wants` or `*.requires` (systemd.unit(5)). If several managers
are enabled, the one that holds a planned port now is taken, else the one that holds any interface. All of this is read
from files, so that it is known in a container, too:

    systemd-networkd   /run/systemd/netif/links/INDEX has NETWORK_FILE= (link_save of networkd-state-file.c)
    NetworkManager     /run/NetworkManager/devices/INDEX has managed=true (nm_config_device_state_write of nm-config.c)
    ifupdown           /run/network/ifstate has the name (interfaces(5), ifup(8))
    netplan            its generator is installed and has a file to read; networkd or NetworkManager obey it
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from trackbed.host.formats import Format
from trackbed.host.machine import Machine
from trackbed.kernel.netlink.links import Link

_UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_MASK = "/dev/null"
_NETPLAN_GENERATORS = ("/usr/lib/systemd/system-generators/netplan", "/lib/systemd/system-generators/netplan")
_NETPLAN_FOLDERS = ("/etc/netplan", "/run/netplan", "/usr/lib/netplan", "/lib/netplan")


class ManagerError(ValueError):
    """The network manager cannot be found or is not supported; the message says what to do. Nothing was changed."""


class Manager(NamedTuple):
    """A network manager, its unit, and whether it holds an interface now; `format` is None if it is not supported."""

    name: str
    unit: str
    format: Format | None = None
    holds: Callable[[Machine, Link], bool] = lambda _, __: False


def _is_held_by_networkd(machine: Machine, link: Link) -> bool:
    lines = machine.read_lines(f"/run/systemd/netif/links/{link.index}")
    return any(line.startswith("NETWORK_FILE=/") for line in lines)


def _is_held_by_networkmanager(machine: Machine, link: Link) -> bool:
    return "managed=true" in machine.read_lines(f"/run/NetworkManager/devices/{link.index}")


def _is_held_by_ifupdown(machine: Machine, link: Link) -> bool:
    return any(line.partition("=")[0] == link.name for line in machine.read_lines("/run/network/ifstate"))


def _is_held_by_netplan(machine: Machine, link: Link) -> bool:
    return _is_held_by_networkd(machine, link) or _is_held_by_networkmanager(machine, link)


_NETPLAN = Manager("netplan", "netplan", "netplan", _is_held_by_netplan)
_OBEYING_NETPLAN = {"networkd", "networkmanager"}

MANAGERS = (
    Manager("systemd-networkd", "systemd-networkd.service", "networkd", _is_held_by_networkd),
    Manager("NetworkManager", "NetworkManager.service", "networkmanager", _is_held_by_networkmanager),
    Manager("ifupdown", "networking.service", "ifupdown", _is_held_by_ifupdown),
    Manager("wicked", "wicked.service"),
    Manager("ConnMan", "connman.service"),
    Manager("dhcpcd", "dhcpcd.service"),
    Manager("network-scripts", "network.service"),
)
"""All managers that are recognized, by the unit that starts them."""

_SUPPORTED = "netplan, systemd-networkd, NetworkManager and ifupdown"
_REMEDY = "choose a format with --persist, or apply until the next boot with --persist none"


def find_format(machine: Machine, ports: Iterable[Link], links: Iterable[Link]) -> Format:
    """Return the format of the manager of `ports`, the planned ports among `links`. Raises ManagerError."""
    if not _starts_with_systemd(machine):
        raise ManagerError(
            "this machine does not start with systemd, so nothing is known of its network manager; Trackbed has files"
            f" for {_SUPPORTED}: {_REMEDY}"
        )
    enabled = list_enabled(machine)
    if not enabled:
        raise ManagerError(f"no network manager is enabled here; Trackbed has files for {_SUPPORTED}: {_REMEDY}")
    manager = enabled[0] if len(enabled) == 1 else _choose_holder(machine, enabled, tuple(ports), tuple(links))
    if manager.format is None:
        raise ManagerError(
            f"{manager.name} configures the network of this machine ({manager.unit} is enabled), and Trackbed has no"
            f" files for it, but for {_SUPPORTED}; let one of these configure the rails, or {_REMEDY}"
        )
    return manager.format


def _starts_with_systemd(machine: Machine) -> bool:
    """Return whether systemd runs (sd_booted(3)), or would in a tree of files without processes."""
    if machine.locate("/run/systemd/system").is_dir():
        return True
    is_running = machine.locate("/proc/1/comm").exists()
    return not is_running and any(machine.locate(folder).is_dir() for folder in ("/etc/systemd", "/usr/lib/systemd"))


def list_enabled(machine: Machine) -> tuple[Manager, ...]:
    """Return the managers that systemd starts; netplan stands for those that obey it, where it has a file."""
    enabled = tuple(manager for manager in MANAGERS if is_enabled(machine, manager.unit))
    if not _has_netplan(machine):
        return enabled
    return (_NETPLAN, *(manager for manager in enabled if manager.format not in _OBEYING_NETPLAN))


def is_enabled(machine: Machine, unit: str) -> bool:
    """Return whether systemd starts a unit at boot, and it is not masked."""
    masks = (machine.locate(f"{folder}/{unit}") for folder in _UNIT_FOLDERS[:2])
    if any(mask.is_symlink() and str(mask.readlink()) == _MASK for mask in masks):
        return False
    folders = (machine.locate(folder) for folder in _UNIT_FOLDERS)
    return any(
        os.path.lexists(links / unit)  # a link of another root leads to nothing here
        for folder in folders
        for kind in ("wants", "requires")
        for links in folder.glob(f"*.{kind}")
    )


def _has_netplan(machine: Machine) -> bool:
    is_installed = any(os.path.lexists(machine.locate(path)) for path in _NETPLAN_GENERATORS)
    return is_installed and any(any(machine.locate(folder).glob("*.yaml")) for folder in _NETPLAN_FOLDERS)


def _choose_holder(
    machine: Machine, enabled: tuple[Manager, ...], ports: tuple[Link, ...], links: tuple[Link, ...]
) -> Manager:
    """Return the only manager that holds a port, else the only one that holds an interface. Raises ManagerError."""
    for group in (ports, links):
        holders = {m.name: link for link in group for m in enabled if link.name != "lo" and m.holds(machine, link)}
        if len(holders) == 1:
            return next(manager for manager in enabled if manager.name in holders)
        if holders:
            held = ", ".join(f"{name} holds {link.name}" for name, link in sorted(holders.items()))
            raise ManagerError(f"several network managers share the interfaces of this machine ({held}); {_REMEDY}")
    names = ", ".join(f"{manager.name} ({manager.unit})" for manager in enabled)
    raise ManagerError(f"{names} are enabled, and none of them holds an interface; disable all but one, or {_REMEDY}")
