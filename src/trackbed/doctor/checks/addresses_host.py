"""Step addresses, what the host's own files say: link speed, room for neighbours, Services that lie on a rail."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.fabric.model.ranges import V4, V6
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps.limits import neighbours

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network, IPv6Network

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_SPEED = "/sys/class/net/{netdev}/speed"
_TABLES = {V4: "/proc/net/stat/arp_cache", V6: "/proc/net/stat/ndisc_cache"}
_ROOM = "/proc/sys/net/ipv{version}/neigh/default/gc_thresh3"
_SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_KUBELET = "/var/lib/kubelet/config.yaml"
_RANGES = re.compile(r"--service-cluster-ip-range=([0-9A-Fa-f:./,]+)")
_RESOLVERS = re.compile(r"^clusterDNS:\s*\n((?:[ ]*-[^\n]*\n?)+)", re.MULTILINE)

FULL = 0.7
"""Share of a neighbour table above which new neighbours may not find room: the kernel frees old ones late."""

READS = Wanted(
    files=(_SPEED, *_TABLES.values(), *(_ROOM.format(version=version) for version in _TABLES), _SERVER, _KUBELET)
)


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port's speed against the node's fastest, then the host as a whole."""
    if view.host is not None:
        yield from _speeds(view, view.host)
        yield from _neighbours(view, view.host)
        yield from _services(view, view.host)


def _speeds(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """The plan names no speed; rails of one node are of one kind. Without carrier the kernel says -1 or nothing."""
    told = [(port, host.number(_SPEED.format(netdev=port.netdev))) for port in view.iter_ports()]
    known = [(port, speed) for port, speed in told if speed is not None and speed > 0]
    best = max((speed for _, speed in known), default=0)
    for port, speed in known if len(known) > 1 else ():
        evidence = f"{port.netdev}: {speed} Mbit/s, fastest rail of {view.node.name}: {best} Mbit/s"
        yield judge("addr-speed-wrong", view.node, port, ok=speed == best, evidence=evidence)


def _neighbours(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    wrong, looked = [], False
    for version, path in _TABLES.items():
        room, planned = host.number(_ROOM.format(version=version)), neighbours(view.node, version)
        entries = _entries(host.text(path) or "")
        if room is None or not planned:
            continue
        looked = True
        if room < 2 * planned or (entries or 0) >= FULL * room:
            wrong.append(f"IPv{version}: {entries or 0} neighbours, the plan brings {planned}, gc_thresh3 is {room}")
    if looked:
        yield judge("addr-neighbour-table-overflow", view.node, None, ok=not wrong, evidence="; ".join(wrong))


def _entries(text: str) -> int | None:
    """The first column, hexadecimal, alike in the line of each CPU (neigh_stat_seq_show, net/core/neighbour.c)."""
    lines = [line.split() for line in text.splitlines()[1:]]
    return max((int(words[0], 16) for words in lines if words), default=None)


def _services(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """The range itself on a control plane node; elsewhere the cluster's resolver, whose address is a Service's."""
    found = [
        *_told(host, _SERVER, _RANGES, r"[0-9A-Fa-f:.]+/\d+"),
        *_told(host, _KUBELET, _RESOLVERS, r"[0-9A-Fa-f:.]+"),
    ]
    rails = [ip_network(str(cut)) for cut in view.list_rail_ranges()]
    inside = [str(one) for one in found if any(one.version == rail.version and one.overlaps(rail) for rail in rails)]
    evidence = f"Services at {', '.join(inside)} lie on a rail" if inside else ""
    if found:
        yield judge("addr-service-cidr-overlap", view.node, None, ok=not inside, evidence=evidence)


def _told(host: Snapshot, path: str, block: re.Pattern[str], one: str) -> Iterator[IPv4Network | IPv6Network]:
    """Ranges or addresses of a block; a resolver on the node itself (NodeLocal DNSCache, 169.254.0.0/16) is none."""
    for part in block.findall(host.text(path) or ""):
        for word in re.findall(one, part):
            try:
                network = ip_network(word, strict=False)
            except ValueError:
                continue
            if not ip_address(network.network_address).is_link_local:
                yield network
