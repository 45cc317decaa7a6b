"""What kubelet tells the cluster of this host: its address, its name, huge pages, its sockets, its clock."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.checks.kubelet_config import KubeletInfo
    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_ROOT = "/var/lib/kubelet"
_SOCKET = "kubelet.sock"
_IDENTITY = ("/etc/machine-id", "/proc/sys/kernel/hostname")
_CLOCK = ("timedatectl", "show", "-p", "NTPSynchronized")
_PAGES = {1 << 30: ("1048576kB", "1GB"), 2 << 20: ("2048kB", "2MB")}
"""Size in bytes -> its name in sysfs, and in the files of the cgroup controller hugetlb."""
_HAVE = "/sys/kernel/mm/hugepages/hugepages-{name}/nr_hugepages"
_GIVEN = "/sys/fs/cgroup/kubepods.slice/hugetlb.{name}.max"
_DRA = (1, 34)
"""The first version that has resource.k8s.io/v1."""

READS = Wanted(
    files=(
        *_IDENTITY,
        *(_HAVE.format(name=name) for name, _ in _PAGES.values()),
        *(_GIVEN.format(name=name) for _, name in _PAGES.values()),
    ),
    folders=(*(f"{_ROOT}/{name}" for name in ("device-plugins", "pod-resources")), f"{_ROOT}/plugins/*"),
    commands=(_CLOCK,),
)


def check(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    """Judge what the host shows of each."""
    yield from _address(view, told)
    yield from _name(view, host)
    yield from _pages(view, host, told)
    yield from _plugins(view, host, told)
    clock = host.said(*_CLOCK)
    if clock:
        ok = clock.strip().endswith("=yes")
        yield judge("kubelet-clock-skew", view.node, None, ok=ok, evidence=clock.strip())


def _address(view: NodeView, told: KubeletInfo) -> Iterator[Finding]:
    try:
        given = [ip_address(one) for one in told.flags.get("node-ip", "").split(",") if one]
    except ValueError:
        return
    rails = [ip_network(str(cut)) for cut in view.list_rail_ranges()]
    if given:
        ok = not any(one in rail for one in given for rail in rails)
        evidence = f"--node-ip={told.flags['node-ip']}"
        yield judge("kubelet-node-address-on-rail", view.node, None, ok=ok, evidence=evidence)


def _name(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    others = [peer.host for peer in view.peers or () if peer.host is not None and peer.node.name != view.node.name]
    if others:
        same = [path for path in _IDENTITY if host.text(path) and host.text(path) in {o.text(path) for o in others}]
        evidence = f"another node has the same content of {', '.join(same)}" if same else ""
        yield judge("kubelet-duplicate-node-name", view.node, None, ok=not same, evidence=evidence)


def _pages(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    """The group of all pods is limited to what kubelet found at its start, less what it reserves."""
    reserved = any(
        str(name).startswith("hugepages")
        for key in ("kubeReserved", "systemReserved")
        for name in told.config.get(key) or ()
    )
    known = [
        (size, have, given)
        for size, (name, short) in _PAGES.items()
        if (have := host.number(_HAVE.format(name=name))) is not None
        and (given := host.number(_GIVEN.format(name=short))) is not None
    ]
    less = [f"{have} pages of {size >> 20} MiB, pods may use {given // size}" for size, have, given in known]
    less = [text for text, (size, have, given) in zip(less, known, strict=True) if given < size * have]
    if known and not reserved:
        yield judge("kubelet-hugepages-not-advertised", view.node, None, ok=not less, evidence="; ".join(less))


def _plugins(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    root = told.flags.get("root-dir", _ROOT)
    if told.is_running:
        places = [f"{_ROOT}/{name}" for name in ("device-plugins", "pod-resources")]
        missing = [place for place in places if _SOCKET not in host.folders.get(place, ())]
        evidence = f"kubelet's folder is {root}; no {_SOCKET} in {', '.join(missing)}" if missing else ""
        yield judge("kubelet-plugin-socket-missing", view.node, None, ok=not missing, evidence=evidence)
    drivers = [path for path, names in host.folders.items() if path.startswith(f"{_ROOT}/plugins/") and _dra(names)]
    if drivers and told.version != (0, 0):
        evidence = f"kubelet {told.version[0]}.{told.version[1]} with the DRA driver {drivers[0].rpartition('/')[2]}"
        yield judge("kubelet-dra-api-missing", view.node, None, ok=told.version >= _DRA, evidence=evidence)


def _dra(names: tuple[str, ...]) -> bool:
    """The socket of a DRA driver, as its helper library of Kubernetes calls it."""
    return "dra.sock" in names
