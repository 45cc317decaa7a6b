"""Programs and files of others that may set a setting, for a person who looks for the writer of a contested value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from trackbed.host.kinds.processes import find_processes
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD

_SYSCTL_FILES = (
    "/etc/sysctl.conf",
    "/etc/sysctl.d/*.conf",
    "/run/sysctl.d/*.conf",
    "/usr/local/lib/sysctl.d/*.conf",
    "/usr/lib/sysctl.d/*.conf",
)
"""The files of sysctl.d(5) and sysctl(8)."""
_TUNED_FOLDERS = ("/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles")
"""The folders of profiles: tuned 2.23 moved them to `profiles` (consts.py, LOAD_DIRECTORIES)."""
_MAX_INCLUDES = 8


def find_daemons(machine: Machine, names: Iterable[str]) -> Iterator[str]:
    """Yield the programs of these names that run on the machine, each with its PID."""
    if not machine.shared_reason:
        yield from (f"{name} runs (PID {pid})" for name in names for pid in find_processes(machine, name))


def find_connection_managers(view: View, netdev: str) -> Iterator[str]:
    """Yield NetworkManager if it has activated a connection on a port, and DHCP clients that run.

    NetworkManager writes the state of each device below /run (nm-config.c, nm_config_device_state_write).
    """
    link = view.ports.get(netdev)
    path = f"/run/NetworkManager/devices/{link.index}" if link else ""
    if path and any(line.startswith("connection-uuid=") for line in view.machine.read_lines(path)):
        yield f"NetworkManager manages {netdev} ({path})"
    yield from find_daemons(view.machine, ("dhclient", "dhcpcd"))


def find_sysctl_writers(machine: Machine, key: str, value: str) -> Iterator[str]:
    """Yield the files that set a kernel parameter to another value; `key` is its path below /proc/sys."""
    for path in _list_files(machine, _SYSCTL_FILES):
        lines = machine.read_lines(path)
        if f"{lines[0] if lines else ''}\n" != HEAD:
            yield from (f"{path} sets it to {other}" for other in _find_values(lines, key) if other != value)
    for profile in machine.read_lines("/etc/tuned/active_profile")[:1]:
        for path in _list_tuned_files(machine, profile.split()):
            values = _find_values(_select_section(machine.read_lines(path), "sysctl"), key)
            yield from (f"tuned sets it to {other} ({path})" for other in values if other != value)


def _list_files(machine: Machine, patterns: Iterable[str]) -> list[str]:
    """Return the paths of the machine's files that match, without those of the same name in an earlier folder."""
    by_name: dict[str, str] = {}
    for pattern in patterns:
        folder, _, name = pattern.rpartition("/")
        for place in sorted(machine.locate(folder).glob(name)):
            by_name.setdefault(place.name, f"{folder}/{place.name}")
    return list(by_name.values())


def _find_values(lines: Iterable[str], key: str) -> Iterator[str]:
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")) and fnmatchcase(key, _to_path(name.strip().lstrip("-"))):
            yield value.strip()


def _to_path(name: str) -> str:
    """Return the path below /proc/sys of a parameter's name: the first separator decides (sysctl.d(5))."""
    dot, slash = name.find("."), name.find("/")
    if dot < 0 or 0 <= slash < dot:
        return name
    return name.translate(str.maketrans("./", "/."))


def _list_tuned_files(machine: Machine, profiles: Iterable[str]) -> Iterator[str]:
    """Yield the files of tuned's profiles and of those that they include."""
    pending, known = list(profiles), set[str]()
    while pending and len(known) < _MAX_INCLUDES:
        profile = pending.pop()
        paths = (f"{folder}/{Path(profile).name}/tuned.conf" for folder in _TUNED_FOLDERS)
        path = next((path for path in paths if machine.locate(path).is_file()), "")
        if not path or path in known:
            continue
        known.add(path)
        yield path
        includes = _find_values(_select_section(machine.read_lines(path), "main"), "include")
        pending += [name for names in includes for name in names.replace(",", " ").split()]


def _select_section(lines: Iterable[str], section: str) -> Iterator[str]:
    """Yield the lines of one section of an INI file."""
    current = ""
    for line in lines:
        if line.startswith("["):
            current = line.strip("[] ")
        elif current == section:
            yield line
