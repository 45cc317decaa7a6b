"""Checks of step routing that read the host's files: sysctl files that reset rp_filter; networkd removing rules."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.processes import find_processes
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import format_address
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_SYSCTLS = tuple(f"{folder}/*.conf" for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"))
_SYSCTL_CONF = "/etc/sysctl.conf"
"""The last file that sysctl(8) reads; systemd-sysctl reads it through a link of the distribution, 99-sysctl.conf."""
_RP_FILTER_LINE = re.compile(r"-?net[./]ipv4[./]conf[./](\S+?)[./]rp_filter\s*=\s*(\d)")
_STRICT = 1

_NETWORKD = ("/etc/systemd/networkd.conf", "/etc/systemd/networkd.conf.d/*.conf")
_NETWORKS = ("/etc/systemd/network/*.network", "/run/systemd/network/*.network")
_FOREIGN_KEYS = ("ManageForeignRoutes", "ManageForeignRoutingPolicyRules")
_NETWORKD_NAME = "systemd-network"
"""Process name of systemd-networkd, which the kernel truncates to 15 bytes."""
_NO = {"no", "false", "off", "0", "n", "f"}

READS = Wanted(files=(*_SYSCTLS, _SYSCTL_CONF, *_NETWORKD, *_NETWORKS))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that neither the next boot nor a restart of networkd breaks the rails' routing."""
    yield from check_rp_filter_files(view, host)
    yield from check_networkd(view, host)


def check_rp_filter_files(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no sysctl file makes rp_filter strict at the next boot."""
    settings = list(_iter_rp_filter_settings(host))
    if not settings:
        return
    for port in view.iter_ports():
        effective = [
            setting for name in ("all", port.netdev) if (setting := _find_effective_setting(settings, name)) is not None
        ]
        is_strict = bool(effective) and max(setting.value for setting in effective) == _STRICT
        evidence = "; ".join(f"{setting.path} sets {setting.value}" for setting in effective)
        yield build_finding("route-rp-filter-reset", view.node, port, ok=not is_strict, evidence=evidence)


def _list_sysctl_files(host: Snapshot) -> list[str]:
    """Return the sysctl files in order of name; a file hides those of the same name in later folders."""
    paths: dict[str, str] = {}
    for path in host.glob(*_SYSCTLS):
        paths.setdefault(path.rpartition("/")[2], path)
    return [*(paths[name] for name in sorted(paths)), *([_SYSCTL_CONF] if host.exists(_SYSCTL_CONF) else [])]


class RpFilterSetting(NamedTuple):
    """A line of a sysctl file that sets rp_filter for an interface, or for interfaces that match a pattern."""

    path: str
    interface: str
    value: int


def _iter_rp_filter_settings(host: Snapshot) -> Iterator[RpFilterSetting]:
    """Yield the lines of all sysctl files that set rp_filter, in the order in which they are applied."""
    for path in _list_sysctl_files(host):
        for line in (host.read_text(path) or "").splitlines():
            match = _RP_FILTER_LINE.match(line.strip())
            if match:
                yield RpFilterSetting(path, match[1], int(match[2]))


def _find_effective_setting(settings: list[RpFilterSetting], interface: str) -> RpFilterSetting | None:
    """Return the setting that applies to an interface; None if there is none.

    An exact name wins over a pattern, and a later file over an earlier one (sysctl.d(5)).
    """
    exact = [setting for setting in settings if setting.interface == interface]
    candidates = exact or [setting for setting in settings if fnmatchcase(interface, setting.interface)]
    return candidates[-1] if candidates else None


def check_networkd(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that networkd keeps the rails' rules.

    When it starts, networkd removes rules and routes that are not in a .network file, unless its configuration forbids
    it (networkd.conf(5)).
    """
    if not find_processes(host, _NETWORKD_NAME):
        return
    settings = dict.fromkeys(_FOREIGN_KEYS, "yes")
    for path in host.glob(*_NETWORKD):
        for line in (host.read_text(path) or "").splitlines():
            key, _, value = line.partition("=")
            settings |= {key.strip(): value.strip().lower()} if key.strip() in settings else {}
    files = "\n".join(host.read_text(path) or "" for path in host.glob(*_NETWORKS))
    sources = [
        format_address(address.version, address.address) for port in view.iter_ports() for address in port.addresses
    ]
    missing = [
        source for source in sources if not re.search(rf"^From={re.escape(source)}(/\d+)?\s*$", files, re.MULTILINE)
    ]
    ok = not missing or all(value in _NO for value in settings.values())
    listing = ", ".join(f"{key}={value}" for key, value in settings.items())
    evidence = "" if ok else f"{listing}; no file has a rule from {missing[0]}"
    yield build_finding("route-networkd-removes-foreign-rules", view.node, None, ok=ok, evidence=evidence)
