"""Each fault of step kubelet, put into a sound host, is what doctor names first; the sound host has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.doctor.host.changing import change_host, combine
from tests.doctor.host.sound_services import (
    ARGS,
    CONFIG,
    CPU_STATE,
    KUBELET_CONFIG,
    MEMORY_STATE,
    PS,
    SWAPS,
    build_services_view,
    find_first_fault,
    list_findings,
)
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

KUBELET = ("kubelet",)
CLOCK = ("timedatectl", "show", "-p", "NTPSynchronized")
DRIVER = "/var/lib/kubelet/plugins/dra.net"


def change_config(old: str, new: str) -> Callable[[NodeView], NodeView]:
    return change_host(files={CONFIG: KUBELET_CONFIG.replace(old, new)})


FAULTS: dict[str, tuple[str, Callable[[NodeView], NodeView]]] = {
    "cgroup v1": ("kubelet-cgroup-v1", change_host(folders={"/sys/fs/cgroup": ("cpuset", "memory")})),
    "swap": ("kubelet-swap-on", change_host(files={"/proc/swaps": f"{SWAPS}/swap.img file 8388604 0 -2\n"})),
    "no CPU reserved": (
        "kubelet-static-policy-without-reservation",
        change_config("reservedSystemCPUs: 0-3", 'kubeReserved: {cpu: "0"}'),
    ),
    "CPU state": ("kubelet-cpu-manager-state-conflict", change_host(files={CPU_STATE: '{"policyName":"none"}'})),
    "memory state": (
        "kubelet-memory-manager-state-conflict",
        change_host(files={MEMORY_STATE: '{"policyName":"Static"}'}),
    ),
    "no socket": ("kubelet-plugin-socket-missing", change_host(folders={"/var/lib/kubelet/pod-resources": ()})),
    "a DRA driver on an old kubelet": (
        "kubelet-dra-api-missing",
        change_host(
            folders={DRIVER: ("dra.sock",)},
            outputs={("kubelet", "--version"): ProgramResult(0, "Kubernetes v1.31.2\n")},
        ),
    ),
    "its address is a rail's": (
        "kubelet-node-address-on-rail",
        change_host(outputs={PS: ProgramResult(0, ARGS.replace("192.0.2.10", "10.0.0.1"))}),
    ),
    "huge pages came later": (
        "kubelet-hugepages-not-advertised",
        change_host(files={"/sys/fs/cgroup/kubepods.slice/hugetlb.1GB.max": "0\n"}),
    ),
    "another topology policy": (
        "kubelet-topology-policy-not-planned",
        change_config("topologyManagerPolicy: restricted", "topologyManagerPolicy: best-effort"),
    ),
    "clock": ("kubelet-clock-skew", change_host(outputs={CLOCK: ProgramResult(0, "NTPSynchronized=no\n")})),
}


@pytest.mark.parametrize(("fault", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, change: Callable[[NodeView], NodeView]) -> None:
    assert find_first_fault(change(build_services_view()), KUBELET) == fault


def test_a_sound_host_passes() -> None:
    assert {finding.verdict for finding in list_findings(build_services_view(), KUBELET)} == {"pass"}


def test_the_first_cpu_alone_is_a_reservation() -> None:
    change = change_config("reservedSystemCPUs: 0-3", 'reservedSystemCPUs: "0"')
    assert find_first_fault(change(build_services_view()), KUBELET) is None


def test_one_numa_node_for_rails_on_two_is_told() -> None:
    change = change_config("topologyManagerPolicy: restricted", "topologyManagerPolicy: single-numa-node")
    wrong = {
        finding.id for finding in list_findings(change(build_services_view()), KUBELET) if finding.verdict == "warn"
    }
    assert "kubelet-topology-affinity-error" in wrong


def test_a_drop_in_counts_where_kubelet_reads_it() -> None:
    drop_in = change_host(files={"/etc/kubernetes/kubelet.conf.d/95-site.conf": "topologyManagerPolicy: none\n"})
    reading = change_host(outputs={PS: ProgramResult(0, f"{ARGS} --config-dir=/etc/kubernetes/kubelet.conf.d\n")})
    assert find_first_fault(drop_in(build_services_view()), KUBELET) is None
    assert (
        find_first_fault(combine(drop_in, reading)(build_services_view()), KUBELET)
        == "kubelet-topology-policy-not-planned"
    )


def test_a_host_without_kubelet_is_not_judged() -> None:
    assert list_findings(build_services_view(Snapshot()), KUBELET) == ()
