"""Each fault of addresses and routing that only files show is what doctor names first; the sound host has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from socket import AF_INET, AF_INET6

import pytest

from tests.doctor.host.changing import change_host
from tests.doctor.host.sound_services import find_first_fault, list_findings
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable

STEPS = ("addresses", "routing")
IN_FILES = {
    "addr-service-cidr-overlap",
    "addr-speed-wrong",
    "addr-neighbour-table-overflow",
    "route-rp-filter-reset",
    "route-networkd-removes-foreign-rules",
}
TABLE = "entries  allocs   table_fulls\n{entries:08x} 00000001 00000000\n{entries:08x} 00000002 00000000\n"
"""The first columns and the last of /proc/net/stat/arp_cache, a line for each CPU (net/core/neighbour.c)."""
SERVER = "spec:\n  containers:\n  - command:\n    - kube-apiserver\n    - --service-cluster-ip-range={cut}\n"
"""A part of kubeadm's manifest."""
RESOLVER = "cgroupDriver: systemd\nclusterDNS:\n- {address}\nclusterDomain: cluster.local\n"
OTHERS = "net.ipv4.conf.default.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\n"
"""50-default.conf of systemd 255."""
SPEED = "/sys/class/net/{netdev}/speed"
APISERVER, KUBELET = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/var/lib/kubelet/config.yaml"
ROOM, ENTRIES = "/proc/sys/net/ipv4/neigh/default/gc_thresh3", "/proc/net/stat/arp_cache"
NETWORK = "/etc/systemd/network/90-{netdev}.network"


def build_view() -> NodeView:
    view = build_sound_view(compute_small_plan().nodes[0])
    files = {
        ROOM: "1024\n",
        ENTRIES: TABLE.format(entries=9),
        APISERVER: SERVER.format(cut="172.30.0.0/16"),
        KUBELET: RESOLVER.format(address="169.254.20.10"),
        "/usr/lib/sysctl.d/50-default.conf": OTHERS,
        "/proc/300/comm": "systemd-network\n",
    }
    for port in view.node.ports:
        rules = "".join(f"[RoutingPolicyRule]\nFrom={str(address).partition('/')[0]}\n" for address in port.addresses)
        files |= {SPEED.format(netdev=port.netdev): "400000\n", NETWORK.format(netdev=port.netdev): rules}
    return replace(view, host=Snapshot({path: content.encode() for path, content in files.items()}))


FAULTS: dict[str, tuple[str, Mapping[str, str | None]]] = {
    "a slow link": ("addr-speed-wrong", {SPEED.format(netdev="rail1"): "200000\n"}),
    "little room": ("addr-neighbour-table-overflow", {ROOM: "2\n"}),
    "nearly full": ("addr-neighbour-table-overflow", {ENTRIES: TABLE.format(entries=800)}),
    "the API server's range": ("addr-service-cidr-overlap", {APISERVER: SERVER.format(cut="fd99::/112,10.0.0.0/16")}),
    "the cluster's resolver": ("addr-service-cidr-overlap", {KUBELET: RESOLVER.format(address="10.0.0.10")}),
    "a later file": ("route-rp-filter-reset", {"/etc/sysctl.d/99-site.conf": "net.ipv4.conf.*.rp_filter=1\n"}),
    "a name wins over patterns": (
        "route-rp-filter-reset",
        {
            "/etc/sysctl.d/10-network-security.conf": "net/ipv4/conf/all/rp_filter=1\n",
            "/usr/lib/sysctl.d/50-default.conf": "net.ipv4.conf.default.rp_filter=0\n",
        },
    ),
    "rules in no file": ("route-networkd-removes-foreign-rules", {NETWORK.format(netdev="rail1"): "[Network]\n"}),
}


@pytest.mark.parametrize(("fault", "files"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, files: Mapping[str, str | None]) -> None:
    assert find_first_fault(change_host(files=files)(build_view()), STEPS) == fault


def test_a_sound_host_passes_all_of_them() -> None:
    findings = list_findings(build_view(), STEPS)
    assert {finding.id for finding in findings} >= IN_FILES == {fault for fault, _ in FAULTS.values()}
    assert {finding.verdict for finding in findings} == {"pass"}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({SPEED.format(netdev="rail1"): "-1\n"}, id="without carrier there is no speed"),
        pytest.param({"/etc/sysctl.d/50-default.conf": ""}, id="a file of /etc hides its namesake of /usr"),
        pytest.param(
            {
                NETWORK.format(netdev="rail1"): None,
                "/etc/systemd/networkd.conf.d/10-foreign.conf": (
                    "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
                ),
            },
            id="networkd leaves alone what is not its own",
        ),
    ],
)
def test_what_only_looks_broken_is_not(files: Mapping[str, str | None]) -> None:
    assert find_first_fault(change_host(files=files)(build_view()), STEPS) is None


TABLE_OF_KERNEL = NeighbourTable(AF_INET, 1000, 1024, 0)
TABLES: dict[str, tuple[bool, NeighbourTable, str]] = {
    "a namespace beside others": (False, TABLE_OF_KERNEL, "pass"),
    "a namespace that overflows": (False, TABLE_OF_KERNEL._replace(overflows=7), "fail"),
    "a host that is nearly full": (True, TABLE_OF_KERNEL, "fail"),
    "a host that overflows": (True, TABLE_OF_KERNEL._replace(entries=9, overflows=7), "fail"),
    "a host with room": (True, TABLE_OF_KERNEL._replace(entries=9), "pass"),
    "the other family": (False, TABLE_OF_KERNEL._replace(family=AF_INET6, overflows=7), "fail"),
}


@pytest.mark.parametrize(("is_host", "table", "verdict"), TABLES.values(), ids=TABLES)
def test_the_kernels_neighbour_table_is_judged(*, is_host: bool, table: NeighbourTable, verdict: str) -> None:
    view = replace(build_view(), neighbour_tables=(table,))
    findings = list_findings(view if is_host else replace(view, host=None), STEPS)
    overflow = [finding for finding in findings if finding.id == "addr-neighbour-table-overflow"]
    assert [finding.verdict for finding in overflow] == [verdict]
    assert all("7 found no room" in finding.evidence for finding in overflow if table.overflows)


def test_a_host_that_says_nothing_of_this_is_not_judged() -> None:
    findings = list_findings(replace(build_view(), host=Snapshot()), STEPS)
    assert not {finding.id for finding in findings} & IN_FILES
