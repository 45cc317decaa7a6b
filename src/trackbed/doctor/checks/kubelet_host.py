"""Properties of the host on which kubelet depends: node address, huge pages, plugin sockets, clock."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.kubelet_config import KubeletInfo
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_KUBELET_FOLDER = "/var/lib/kubelet"
_SOCKET = "kubelet.sock"
_DRA_SOCKET = "dra.sock"
"""Name of a DRA driver's socket (k8s.io/dynamic-resource-allocation/kubeletplugin)."""
_CLOCK = ("timedatectl", "show", "-p", "NTPSynchronized")
_HUGE_PAGE_NAMES = {1 << 30: ("1048576kB", "1GB"), 2 << 20: ("2048kB", "2MB")}
"""Huge page size in bytes -> its names in sysfs and in the files of the cgroup controller hugetlb."""
_PAGE_COUNT = "/sys/kernel/mm/hugepages/hugepages-{name}/nr_hugepages"
_POD_LIMIT = "/sys/fs/cgroup/kubepods.slice/hugetlb.{name}.max"
_DRA_VERSION = (1, 34)
"""The first version of Kubernetes that has resource.k8s.io/v1."""

READS = Wanted(
    files=(
        *(_PAGE_COUNT.format(name=name) for name, _ in _HUGE_PAGE_NAMES.values()),
        *(_POD_LIMIT.format(name=name) for _, name in _HUGE_PAGE_NAMES.values()),
    ),
    folders=(
        *(f"{_KUBELET_FOLDER}/{name}" for name in ("device-plugins", "pod-resources")),
        f"{_KUBELET_FOLDER}/plugins/*",
    ),
    commands=(_CLOCK,),
)


def check(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check the node's address, huge pages, plugin sockets and clock."""
    yield from check_address(view, kubelet)
    yield from check_hugepages(view, host, kubelet)
    yield from check_plugins(view, host, kubelet)
    clock = host.get_output(*_CLOCK)
    if clock:
        ok = clock.strip().endswith("=yes")
        yield build_finding("kubelet-clock-skew", view.node, None, ok=ok, evidence=clock.strip())


def check_address(view: NodeView, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check that the node's address is not on a rail."""
    try:
        addresses = [ip_address(item) for item in kubelet.flags.get("node-ip", "").split(",") if item]
    except ValueError:
        return
    rails = [ip_network(str(rail_range)) for rail_range in view.list_rail_ranges()]
    if addresses:
        ok = not any(address in rail for address in addresses for rail in rails)
        evidence = f"--node-ip={kubelet.flags['node-ip']}"
        yield build_finding("kubelet-node-address-on-rail", view.node, None, ok=ok, evidence=evidence)


def check_hugepages(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check that pods may use all huge pages; skipped if kubelet reserves some.

    Kubelet limits the cgroup of all pods to the pages that existed when it started, less those that it reserves.
    """
    is_reserved = any(
        str(name).startswith("hugepages")
        for key in ("kubeReserved", "systemReserved")
        for name in kubelet.config.get(key) or ()
    )
    known = [
        (size, count, limit)
        for size, (name, cgroup_name) in _HUGE_PAGE_NAMES.items()
        if (count := host.read_number(_PAGE_COUNT.format(name=name))) is not None
        and (limit := host.read_number(_POD_LIMIT.format(name=cgroup_name))) is not None
    ]
    short = [
        f"{count} pages of {size >> 20} MiB, pods may use {limit // size}"
        for size, count, limit in known
        if limit < size * count
    ]
    if known and not is_reserved:
        yield build_finding(
            "kubelet-hugepages-not-advertised", view.node, None, ok=not short, evidence="; ".join(short)
        )


def check_plugins(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check that kubelet's sockets are at the paths that plugins expect, and that it supports installed DRA drivers."""
    if kubelet.is_running:
        folders = [f"{_KUBELET_FOLDER}/{name}" for name in ("device-plugins", "pod-resources")]
        missing = [folder for folder in folders if _SOCKET not in host.folders.get(folder, ())]
        root = kubelet.flags.get("root-dir", _KUBELET_FOLDER)
        evidence = f"kubelet's folder is {root}; no {_SOCKET} in {', '.join(missing)}" if missing else ""
        yield build_finding("kubelet-plugin-socket-missing", view.node, None, ok=not missing, evidence=evidence)
    drivers = [path for path in host.glob(f"{_KUBELET_FOLDER}/plugins/*") if _DRA_SOCKET in host.folders.get(path, ())]
    version = kubelet.version
    if drivers and version != (0, 0):
        evidence = f"kubelet {version[0]}.{version[1]} with the DRA driver {drivers[0].rpartition('/')[2]}"
        yield build_finding("kubelet-dra-api-missing", view.node, None, ok=version >= _DRA_VERSION, evidence=evidence)
