"""Each fault of step runtime, put into a sound host, is what doctor names first; the sound host has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.doctor.host.changing import change_host, combine
from tests.doctor.host.sound_services import (
    CDI,
    CONTAINERD,
    CONTAINERD_CONFIG,
    find_first_fault,
    limits,
    list_findings,
    services_view,
)
from trackbed.doctor.view import NodeView
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot

RUNTIME = ("runtime",)
TOML = "/etc/containerd/config.toml"
OLD = change_host(outputs={("kubelet", "--version"): Ran(0, "Kubernetes v1.31.2\n")})


def _config(old: str, new: str) -> Callable[[NodeView], NodeView]:
    return change_host(files={TOML: CONTAINERD_CONFIG.replace(old, new)})


FAULTS: dict[str, tuple[str, Callable[[NodeView], NodeView]]] = {
    "locked memory": (
        "runtime-memlock-low",
        change_host(files={f"/proc/{CONTAINERD}/limits": limits(memlock="8388608")}),
    ),
    "cgroups": (
        "runtime-cgroup-driver-mismatch",
        combine(OLD, _config("SystemdCgroup = true", "SystemdCgroup = false")),
    ),
    "no network": ("runtime-cni-not-initialized", change_host(folders={"/etc/cni/net.d": (".kubernetes-cni-keep",)})),
    "NRI is off": ("runtime-nri-disabled", _config("disable = false", "disable = true")),
    "NRI has no socket": ("runtime-nri-disabled", change_host(folders={"/var/run/nri": ()})),
    "CDI is off": ("runtime-cdi-disabled", _config("enable_cdi = true", "enable_cdi = false")),
    "CDI elsewhere": ("runtime-cdi-disabled", _config("['/etc/cdi', '/var/run/cdi']", "['/etc/cdi']")),
    "a broken specification": ("runtime-cdi-spec-missing", change_host(files={"/var/run/cdi/nvidia.json": CDI[:40]})),
    "a device twice": ("runtime-cdi-spec-missing", change_host(files={"/var/run/cdi/old.json": CDI})),
    "no handler": (
        "runtime-nvidia-handler-missing",
        combine(_config("runtimes.nvidia]", "runtimes.kata]"), change_host(files={"/var/run/cdi/nvidia.json": None})),
    ),
}


@pytest.mark.parametrize(("fault", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, change: Callable[[NodeView], NodeView]) -> None:
    assert find_first_fault(change(services_view()), RUNTIME) == fault


def test_a_sound_host_passes_all_of_them() -> None:
    findings = list_findings(OLD(services_view()), RUNTIME)
    assert {finding.id for finding in findings} == {fault for fault, _ in FAULTS.values()}
    assert {finding.verdict for finding in findings} == {"pass"}


def test_a_new_kubelet_takes_the_driver_from_the_runtime() -> None:
    assert find_first_fault(_config("SystemdCgroup = true", "SystemdCgroup = false")(services_view()), RUNTIME) is None


def test_a_host_without_containerd_is_not_judged() -> None:
    assert list_findings(services_view(Snapshot()), RUNTIME) == ()
