"""Each fault of step runtime, put into a sound host, is what doctor names first; the sound host has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.doctor.host.changing import change_host, combine
from tests.doctor.host.sound_services import (
    CDI,
    CONTAINERD,
    CONTAINERD_CONFIG,
    build_services_view,
    find_first_fault,
    list_findings,
    render_limits,
)
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

RUNTIME = ("runtime",)
TOML = "/etc/containerd/config.toml"
OLD = change_host(outputs={("kubelet", "--version"): ProgramResult(0, "Kubernetes v1.31.2\n")})


def change_config(old: str, new: str) -> Callable[[NodeView], NodeView]:
    return change_host(files={TOML: CONTAINERD_CONFIG.replace(old, new)})


FAULTS: dict[str, tuple[str, Callable[[NodeView], NodeView]]] = {
    "locked memory": (
        "runtime-memlock-low",
        change_host(files={f"/proc/{CONTAINERD}/limits": render_limits(memlock="8388608")}),
    ),
    "cgroups": (
        "runtime-cgroup-driver-mismatch",
        combine(OLD, change_config("SystemdCgroup = true", "SystemdCgroup = false")),
    ),
    "no network": ("runtime-cni-not-initialized", change_host(folders={"/etc/cni/net.d": (".kubernetes-cni-keep",)})),
    "NRI is off": ("runtime-nri-disabled", change_config("disable = false", "disable = true")),
    "NRI has no socket": ("runtime-nri-disabled", change_host(folders={"/var/run/nri": ()})),
    "CDI is off": ("runtime-cdi-disabled", change_config("enable_cdi = true", "enable_cdi = false")),
    "CDI elsewhere": ("runtime-cdi-disabled", change_config("['/etc/cdi', '/var/run/cdi']", "['/etc/cdi']")),
    "a broken specification": ("runtime-cdi-spec-missing", change_host(files={"/var/run/cdi/nvidia.json": CDI[:40]})),
    "a device twice": ("runtime-cdi-spec-missing", change_host(files={"/var/run/cdi/old.json": CDI})),
    "no handler": (
        "runtime-nvidia-handler-missing",
        combine(
            change_config("runtimes.nvidia]", "runtimes.kata]"), change_host(files={"/var/run/cdi/nvidia.json": None})
        ),
    ),
}


OLD_CONFIG = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = {on}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
"""
SECTION = '[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "pause"\n'
DROP_IN = "/etc/containerd/conf.d/90-site.toml"
RKE2, K3S = (f"/var/lib/rancher/{name}/agent/etc/containerd/config.toml" for name in ("rke2", "k3s"))
DUMP = ("containerd", "config", "dump")
CRIO = "/etc/crio/crio.conf.d/10-site.conf"


@pytest.mark.support(
    "runtime", "containerd 1.7", "modelled", "CDI that is off is found: its rules of defaults and imports"
)
@pytest.mark.support("runtime", "RKE2", "modelled", "CDI that is off is found: its configuration file")
@pytest.mark.support("runtime", "k3s", "modelled", "CDI that is off is found: its configuration file")
@pytest.mark.parametrize(
    ("files", "fault"),
    [
        pytest.param({TOML: OLD_CONFIG.format(on="true")}, None, id="on"),
        pytest.param({TOML: OLD_CONFIG.format(on="false")}, "runtime-cdi-disabled", id="off"),
        pytest.param({TOML: "version = 2\n"}, "runtime-cdi-disabled", id="absent"),
        pytest.param({TOML: "version = 3\n"}, None, id="absent in the format of containerd 2"),
        pytest.param(
            {TOML: OLD_CONFIG.format(on="true"), DROP_IN: f"version = 2\n{SECTION}"},
            "runtime-cdi-disabled",
            id="a drop-in replaces the section",
        ),
        pytest.param({TOML: CONTAINERD_CONFIG, DROP_IN: f"version = 2\n{SECTION}"}, None, id="containerd 2 merges it"),
        pytest.param({TOML: None, RKE2: OLD_CONFIG.format(on="true")}, None, id="RKE2, on"),
        pytest.param({TOML: None, RKE2: f"version = 2\n{SECTION}"}, "runtime-cdi-disabled", id="RKE2, absent"),
        pytest.param({TOML: None, K3S: f"version = 2\n{SECTION}"}, "runtime-cdi-disabled", id="k3s, absent"),
    ],
)
def test_cdi_that_containerd_has_off_is_found(files: dict[str, str | None], fault: str | None) -> None:
    view = combine(change_host(folders={"/run/nvidia/validations": ()}), change_host(files=files))(
        build_services_view()
    )
    assert find_first_fault(view, RUNTIME) == fault


@pytest.mark.parametrize(("on", "fault"), [("true", None), ("false", "runtime-cdi-disabled")])
def test_what_containerd_prints_goes_before_its_files(on: str, fault: str | None) -> None:
    other = "false" if on == "true" else "true"
    view = combine(
        change_host(files={TOML: OLD_CONFIG.format(on=other)}),
        change_host(outputs={DUMP: ProgramResult(0, OLD_CONFIG.format(on=on))}),
    )(build_services_view())
    assert find_first_fault(view, RUNTIME) == fault


def test_an_agent_needs_cdi_before_it_has_written_any_specification() -> None:
    change = change_host(
        files={TOML: "version = 2\n", "/var/run/cdi/nvidia.json": None}, folders={"/run/nvidia/validations": ()}
    )
    assert find_first_fault(change(build_services_view()), RUNTIME) is None
    view = change_host(folders={"/run/trackbed": ("agent.sock",)})(change(build_services_view()))
    assert find_first_fault(view, RUNTIME) == "runtime-cdi-disabled"


@pytest.mark.support("runtime", "CRI-O", "modelled", "locked memory: its process and default_ulimits")
@pytest.mark.parametrize(
    ("limit", "ulimits", "fault"),
    [
        pytest.param("8388608", "[]", "runtime-memlock-low", id="of its process"),
        pytest.param("unlimited", "[]", None, id="none"),
        pytest.param("8388608", '["memlock=-1:-1"]', None, id="configured without limit"),
        pytest.param("unlimited", '["nofile=1:1", "memlock=65536:65536"]', "runtime-memlock-low", id="configured low"),
    ],
)
def test_the_limit_of_cri_o_is_that_of_its_process_or_of_its_configuration(
    limit: str, ulimits: str, fault: str | None
) -> None:
    files = {
        f"/proc/{CONTAINERD}/comm": "crio\n",
        f"/proc/{CONTAINERD}/limits": render_limits(memlock=limit),
        CRIO: f"[crio.runtime]\ndefault_ulimits = {ulimits}\n",
    }
    assert find_first_fault(change_host(files=files)(build_services_view()), RUNTIME) == fault


@pytest.mark.parametrize(("fault", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, change: Callable[[NodeView], NodeView]) -> None:
    assert find_first_fault(change(build_services_view()), RUNTIME) == fault


def test_a_sound_host_passes_all_of_them() -> None:
    findings = list_findings(OLD(build_services_view()), RUNTIME)
    assert {finding.id for finding in findings} == {fault for fault, _ in FAULTS.values()}
    assert {finding.verdict for finding in findings} == {"pass"}


def test_a_new_kubelet_takes_the_driver_from_the_runtime() -> None:
    assert (
        find_first_fault(change_config("SystemdCgroup = true", "SystemdCgroup = false")(build_services_view()), RUNTIME)
        is None
    )


def test_a_configuration_that_cannot_be_parsed_has_the_defaults() -> None:
    findings = list_findings(change_host(files={TOML: "version = [3"})(build_services_view()), RUNTIME)
    assert "runtime-nri-disabled" in {finding.id for finding in findings if finding.verdict == "pass"}


def test_a_host_without_containerd_is_not_judged() -> None:
    assert list_findings(build_services_view(Snapshot()), RUNTIME) == ()
