"""Step routing, checks of the host's files: sysctl files that reset rp_filter, and networkd, which removes rules."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import find_processes
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.ranges import format_address
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_SYSCTLS = tuple(f"{folder}/*.conf" for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"))
_LEGACY = "/etc/sysctl.conf"
"""sysctl(8) reads it last; systemd-sysctl does so where a distribution links 99-sysctl.conf to it."""
_SETTING = re.compile(r"-?net[./]ipv4[./]conf[./](\S+?)[./]rp_filter\s*=\s*(\d)")
_STRICT = 1

_NETWORKD = ("/etc/systemd/networkd.conf", "/etc/systemd/networkd.conf.d/*.conf")
_NETWORKS = ("/etc/systemd/network/*.network", "/run/systemd/network/*.network")
_KEYS = ("ManageForeignRoutes", "ManageForeignRoutingPolicyRules")
_PROCESS = "systemd-network"
"""systemd-networkd, cut to 15 bytes by the kernel."""
_NO = {"no", "false", "off", "0", "n", "f"}

READS = Wanted(files=(*_SYSCTLS, _LEGACY, *_NETWORKD, *_NETWORKS)) | PROCESSES


def check(view: NodeView) -> Iterator[Finding]:
    """Check what the next boot does to rp_filter, and a restart of networkd to the rails' rules."""
    if view.host is not None:
        yield from check_rp_filter_files(view, view.host)
        yield from check_networkd(view, view.host)


def check_rp_filter_files(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no sysctl file makes rp_filter strict at the next boot."""
    settings = [(path, *setting) for path in _list_sysctl_files(host) for setting in _parse(host.read_text(path) or "")]
    if not settings:
        return
    for port in view.iter_ports():
        winners = [winner for name in ("all", port.netdev) if (winner := _find_winner(settings, name)) is not None]
        is_strict = bool(winners) and max(value for _, value in winners) == _STRICT
        evidence = "; ".join(f"{path} sets {value}" for path, value in winners)
        yield judge("route-rp-filter-reset", view.node, port, ok=not is_strict, evidence=evidence)


def _list_sysctl_files(host: Snapshot) -> list[str]:
    """Return the sysctl files in the order of their names; an earlier folder's file replaces a later one's."""
    paths: dict[str, str] = {}
    for pattern in _SYSCTLS:
        for path in host.glob(pattern):
            paths.setdefault(path.rpartition("/")[2], path)
    return [*(paths[name] for name in sorted(paths)), *([_LEGACY] if host.exists(_LEGACY) else [])]


def _parse(content: str) -> Iterator[tuple[str, int]]:
    """Yield (interface or pattern, value) for each line that sets rp_filter."""
    for line in content.splitlines():
        match = _SETTING.match(line.strip())
        if match:
            yield match[1], int(match[2])


def _find_winner(settings: list[tuple[str, str, int]], name: str) -> tuple[str, int] | None:
    """Return (path, value) of the setting that applies to an interface.

    Later files win, and an exact name wins over a pattern wherever it is (sysctl.d(5)).
    """
    exact = [(path, value) for path, interface, value in settings if interface == name]
    matching = [(path, value) for path, pattern, value in settings if fnmatchcase(name, pattern)]
    candidates = exact or matching
    return candidates[-1] if candidates else None


def check_networkd(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that networkd keeps the rails' rules.

    At its start networkd removes rules and routes that no .network file has (networkd.conf(5)), unless its
    configuration forbids it.
    """
    if not find_processes(host, _PROCESS):
        return
    settings = dict.fromkeys(_KEYS, "yes")
    for path in (path for pattern in _NETWORKD for path in host.glob(pattern)):
        for line in (host.read_text(path) or "").splitlines():
            key, _, value = line.partition("=")
            settings |= {key.strip(): value.strip().lower()} if key.strip() in settings else {}
    files = "\n".join(host.read_text(path) or "" for pattern in _NETWORKS for path in host.glob(pattern))
    sources = [
        format_address(address.version, address.address) for port in view.iter_ports() for address in port.addresses
    ]
    missing = [
        source for source in sources if not re.search(rf"^From={re.escape(source)}(/\d+)?\s*$", files, re.MULTILINE)
    ]
    ok = not missing or all(value in _NO for value in settings.values())
    listing = ", ".join(f"{key}={value}" for key, value in settings.items())
    evidence = "" if ok else f"{listing}; no file has a rule from {missing[:1]}"
    yield judge("route-networkd-removes-foreign-rules", view.node, None, ok=ok, evidence=evidence)
