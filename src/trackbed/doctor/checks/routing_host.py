"""Step routing, what the host's own files say: who sets rp_filter again, and whether networkd drops our rules."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import find_processes
from trackbed.fabric.model.ranges import text
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_SYSCTLS = tuple(f"{folder}/*.conf" for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"))
_OLD = "/etc/sysctl.conf"
"""sysctl(8) reads it last; systemd-sysctl does so where a distribution links 99-sysctl.conf to it."""
_SETTING = re.compile(r"-?net[./]ipv4[./]conf[./](\S+?)[./]rp_filter\s*=\s*(\d)")
_STRICT = 1

_NETWORKD = ("/etc/systemd/networkd.conf", "/etc/systemd/networkd.conf.d/*.conf")
_NETWORKS = ("/etc/systemd/network/*.network", "/run/systemd/network/*.network")
_KEYS = ("ManageForeignRoutes", "ManageForeignRoutingPolicyRules")
_PROCESS = "systemd-network"
"""systemd-networkd: the kernel keeps 15 bytes of a name."""
_NO = {"no", "false", "off", "0", "n", "f"}

READS = Wanted(files=(*_SYSCTLS, _OLD, *_NETWORKD, *_NETWORKS)) | PROCESSES


def check(view: NodeView) -> Iterator[Finding]:
    """Judge what the next boot, or the next restart of networkd, makes of rp_filter and of our rules."""
    if view.host is not None:
        yield from _filters(view, view.host)
        yield from _networkd(view, view.host)


def _filters(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Later files win, and a key by its name wins over a pattern, wherever it stands (sysctl.d(5))."""
    lines = [(path, *found) for path in _ordered(host) for found in _settings(host.text(path) or "")]
    if not lines:
        return
    for port in view.iter_ports():
        last = [one for name in ("all", port.netdev) if (one := _last(lines, name)) is not None]
        strict = bool(last) and max(value for _, value in last) == _STRICT
        evidence = "; ".join(f"{path} sets {value}" for path, value in last)
        yield judge("route-rp-filter-reset", view.node, port, ok=not strict, evidence=evidence)


def _ordered(host: Snapshot) -> list[str]:
    """By the names of files, whatever their folder; of two with one name that of the earlier folder counts."""
    found: dict[str, str] = {}
    for pattern in _SYSCTLS:
        for path in host.glob(pattern):
            found.setdefault(path.rpartition("/")[2], path)
    return [*(found[name] for name in sorted(found)), *([_OLD] if host.exists(_OLD) else [])]


def _settings(content: str) -> Iterator[tuple[str, int]]:
    for line in content.splitlines():
        found = _SETTING.match(line.strip())
        if found:
            yield found[1], int(found[2])


def _last(lines: list[tuple[str, str, int]], name: str) -> tuple[str, int] | None:
    exact = [(path, value) for path, given, value in lines if given == name]
    alike = [(path, value) for path, given, value in lines if fnmatchcase(name, given)]
    found = exact or alike
    return found[-1] if found else None


def _networkd(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """It removes at its start what no .network file has (networkd.conf(5)): rules that are in a file are safe."""
    if not find_processes(host, _PROCESS):
        return
    kept = dict.fromkeys(_KEYS, "yes")
    for path in (path for pattern in _NETWORKD for path in host.glob(pattern)):
        for line in (host.text(path) or "").splitlines():
            key, _, value = line.partition("=")
            kept |= {key.strip(): value.strip().lower()} if key.strip() in kept else {}
    files = "\n".join(host.text(path) or "" for pattern in _NETWORKS for path in host.glob(pattern))
    own = [text(one.version, one.address) for port in view.iter_ports() for one in port.addressed]
    missing = [one for one in own if not re.search(rf"^From={re.escape(one)}(/\d+)?\s*$", files, re.MULTILINE)]
    ok = not missing or all(value in _NO for value in kept.values())
    evidence = f"{', '.join(f'{key}={value}' for key, value in kept.items())}; no file has a rule from {missing[:1]}"
    yield judge("route-networkd-removes-foreign-rules", view.node, None, ok=ok, evidence="" if ok else evidence)
