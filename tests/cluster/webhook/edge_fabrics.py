"""Fabrics at the edge of what schema and webhook take: shortest and longest names, first and last numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trackbed.cluster.stacks import MODULES

LABELS = ("f", "0", "no", "null", "1e3", "a-b", "x" * 63)
HOSTS = ("a", "gpu-0", "gpu-[0-3]", "rack[1-2]n[01-02]", "no", "1e3", "0x1f", "A.b_c", "x" * 63, "n[1-4/2]", "1.5", "7")
NETDEVS = (
    "enp1s0f0np0",
    "a" * 15,
    "_",
    "no",
    "0x1",
    "1e3",
    "eth0.100",
    "A",
    "x-",
    "rail1",
    "null",
    "y.z",
    "1_0",
)
MACS = ("b8:3f:d2:00:00:01", "B8-3F-D2-00-00-02", "fe:ff:ff:ff:ff:ff", "00:00:00:00:00:01")
PCIS = ("0000:18:00.0", "0000:FF:1f.7", "10000:01:00.0", "0000:00:00.0")
NETWORKS4 = (*("10.0.0.0/8",) * 6, "10.64.0.0/13", "172.16.0.0/12", "192.168.0.0/24", "1.0.0.0/8", "223.0.0.0/8")
NETWORKS6 = (*("fd00::/32",) * 6, "fd00:10::/40", "2001:db8::/48", "fd00::/112", "2000::/3")
TEMPLATES = {
    "netdev": (
        "rail{rail}",
        "r{number}",
        "{rail}_",
        "keep",
        "no{rail}",
        "1e{rail}",
        "eth{rail}.{number}",
        "a" * 9 + "{rail}",
        "{rail}",
    ),
    "rdma": ("rail{rail}", "mlx5_{rail}", "{rail}", "x" * 57 + "{rail}", "a.b-c_{number}", "0x{rail}", "{unit}{rail}"),
    "pod": ("net{number}", "rail{rail}", "a" * 9 + "{rail}", "no{rail}", "{rail}", "_{rail}"),
    "resource": ("trackbed.dev/rail{rail}", "nvidia.com/rail{number}", "r{rail}", "a.b/x{rail}y", "Rail{rail}"),
    "network": ("rail{rail}", "{rail}", "n-{number}", "x" * 38 + "{rail}", "0e{rail}", "no{rail}"),
    "leaf": (
        "leaf-u{unit}-r{rail}",
        "{rail}",
        "_{rail}",
        "l{unit}.{rail}.example.com",
        "no{rail}",
        "x" * 100 + "{rail}",
    ),
}


def sometimes(draw: st.DrawFn, values: dict[str, st.SearchStrategy[Any]], share: float = 0.3) -> dict[str, Any]:
    """Draw some of the fields."""
    picked = [name for name in values if draw(st.floats(0, 1)) < share]
    return {name: draw(values[name]) for name in picked}


def edges(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@st.composite
def ports(draw: st.DrawFn) -> object:
    """A port in each of its forms."""
    kinds = {"pci": edges(*PCIS), "mac": edges(*MACS), "netdev": edges(*NETDEVS)}
    if draw(st.booleans()):
        return draw(st.one_of(*kinds.values(), st.none()))
    return {name: draw(kinds[name]) for name in draw(st.sets(edges(*kinds), min_size=1))}


@st.composite
def groups(draw: st.DrawFn, hosts: str, rails: int) -> dict[str, Any]:
    """A group of hosts; usually with as many ports as there are rails."""
    count = rails if draw(st.integers(0, 49)) else rails + 1
    row = st.lists(ports(), min_size=count, max_size=count, unique_by=repr)
    group: dict[str, Any] = {"hosts": hosts}
    if rails <= len(PCIS) and draw(st.booleans()):
        group["ports"] = draw(row)
    if rails <= len(PCIS) and "[" not in hosts and not draw(st.integers(0, 3)):
        group["hostPorts"] = {hosts: draw(row)}
    fields = {"nic": edges("15b3:1021", "ffff:FFFF"), "gpus": edges(1, 64), "unit": edges(0, 1, 4095)}
    return group | sometimes(draw, fields, 0.1)


@st.composite
def addressings(draw: st.DrawFn) -> dict[str, Any]:
    """Any scheme, in ranges that may be too small."""
    scheme = draw(edges("shared-subnet", "node-subnet", "point-to-point", "none"))
    if scheme == "none":
        return {"scheme": scheme}
    versions = {"ipv4": edges(*NETWORKS4), "ipv6": edges(*NETWORKS6)}
    numbers = {"ipv4RailPrefix": edges(16, 24), "ipv6RailPrefix": edges(48, 64)}
    scheme_fields = {
        "shared-subnet": {"podAddresses": edges(0, 1, 15, 255), "gateway": edges("none", "first", "last")},
        "node-subnet": {
            "ipv4NodePrefix": edges(24, 29),
            "ipv6NodePrefix": edges(64, 124),
            "podAddresses": edges(0, 1),
        },
        "point-to-point": {"layout": st.just("dense"), "podAddresses": edges(0, 1)},
    }[scheme]
    ranges = sometimes(draw, versions, 0.6) or {"ipv4": "10.0.0.0/8"}
    if scheme == "point-to-point" and not draw(st.integers(0, 4)):
        return {"scheme": scheme, "layout": "spectrum-x-2tier"}
    return {"scheme": scheme, **ranges, **sometimes(draw, numbers, 0.1), **sometimes(draw, scheme_fields)}


@st.composite
def rail_lists(draw: st.DrawFn) -> object:
    """A number of rails, or a list of them."""
    if draw(st.integers(0, 3)):
        return draw(edges(1, 2, 2, 3, 4, 8, "2", 64))
    name = {"name": edges(*NETDEVS)}
    return [sometimes(draw, name) for _ in range(draw(st.integers(1, 3)))]


SECTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "routing": {
        "crossRail": edges("routed", "isolated"),
        "tableBase": edges(256, 4_000_000_000),
        "rulePriority": edges(2, 32_000),
    },
    "qos": {
        "dscp": edges(0, 26, 63),
        "priority": edges(0, 3, 7),
        "cnpDscp": edges(1, 48, 62),
        "pfc": st.booleans(),
        "ecn": st.booleans(),
    },
    "vfs": {
        "count": edges(0, 1, 8, 256),
        "mtu": edges(1280, 1500),
        "trust": st.booleans(),
        "spoofCheck": st.booleans(),
    },
    "rdma": {"namespaceMode": edges("exclusive", "shared", "shared")},
    "bios": {"bmc": edges("bmc-{host}", "10.0.0.1:443"), "acs": edges("enabled", "disabled", "leave")},
    "firmware": {"parameters": edges("leave", "write", "reset")},
    "kernel": {
        "iommu": edges("auto", "passthrough", "leave"),
        "isolatedCpus": edges("0", "4-63,68", "0-99999", ",".join("9" * 5 for _ in range(170))),
        "arguments": edges(["pci=realloc"], ["a" * 1023], ["x.y-z_1=a,b.c:d;e/f@g+h=i"], ["quiet", "quiet"]),
        "hugepages": edges([{"count": 1}], [{"size": "2M", "count": 1_000_000}, {"size": "1G", "count": 1}]),
    },
    "kubelet": {
        "topologyManager": edges("none", "restricted", "single-numa-node"),
        "reservedCpus": edges("0", "0-3,32"),
    },
    "pods": {"mode": edges("move", "sriov", "macvlan")},
    "kubernetes": {
        "namespace": edges(*LABELS),
        "ipam": edges("nv-ipam", "whereabouts"),
        "driver": edges("host", "container"),
        "management": edges("calico", "cilium"),
    },
    "rollout": {"maxUnavailable": edges(1, "0%", "100%", 999_999), "canary": edges(0, 1000), "reboots": edges(0, 10)},
    "names": {name: edges(*templates) for name, templates in TEMPLATES.items()},
}
REPOSITORY = {
    "name": "x" * 63,
    "manager": "apt",
    "url": "https://a.b/~c:d@e%20f+g-h/",
    "key": "/etc/apt/keyrings/+a.b_c-d.asc",
    "install": {"a+b.c_d-e": "1:2.3+4~5^6_7-8"},
    "components": ["main", "a/b_c.d-e"],
}


@st.composite
def edge_fabrics(draw: st.DrawFn) -> dict[str, Any]:
    """A Fabric object; the webhook takes about every second one."""
    rails = draw(rail_lists())
    count = len(rails) if isinstance(rails, list) else int(str(rails))
    hosts = draw(st.lists(edges(*HOSTS), min_size=1, max_size=2, unique_by=lambda text: text.split("[")[0][:3]))
    spec: dict[str, Any] = {
        "rails": rails,
        "nodes": [draw(groups(text, count)) for text in hosts],
        "addressing": draw(addressings()),
        "kubernetes": {"stack": draw(edges(*MODULES, *("bare-metal",) * len(MODULES)))},
        "otherRanges": {"docker": []},
    }
    for section, fields in SECTIONS.items():
        if draw(st.integers(0, 2)) == 0:
            spec[section] = spec.get(section, {}) | sometimes(draw, fields)
    mtu, path_mtu = draw(
        st.one_of(st.just((None, None)), edges((65535, 4096), (4200, 4096), (1280, 1024), (1280, 256)))
    )
    if mtu:
        spec |= {"mtu": mtu, "rdma": spec.get("rdma", {}) | {"pathMtu": path_mtu}, "vfs": {}}
    if not draw(st.integers(0, 3)):
        spec["linkType"] = "infiniband"
        spec["kubernetes"] |= sometimes(draw, {"pkey": edges("0x8001", 1, 65535)})
    spec |= sometimes(draw, {"nodesPerUnit": edges(1, 2, 128, 4096)}, 0.2)
    if not draw(st.integers(0, 9)):
        spec["repositories"] = [REPOSITORY | {"manager": draw(edges("apt", "dnf"))}]
    head = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric"}
    return {**head, "metadata": {"name": draw(edges(*LABELS))}, "spec": spec}
