"""Each fault of step limits, put into a sound host, is what doctor names first; the sound host has none."""

from __future__ import annotations

import pytest

from tests.doctor.host.sound_services import (
    CONTAINERD,
    SLURMD,
    build_services_view,
    change_files,
    find_first_fault,
    list_findings,
    render_limits,
)
from trackbed.host.snapshot.snapshot import Snapshot

LIMITS = ("limits",)
FAULTS: dict[str, tuple[str, dict[str, str | None]]] = {
    "containerd may open few files": ("limits-nofile-low", {f"/proc/{CONTAINERD}/limits": render_limits(files="1024")}),
    "the kernel has few files": ("limits-nofile-low", {"/proc/sys/fs/file-max": "400000\n"}),
    "stacks without limit": ("limits-stack-unlimited", {f"/proc/{SLURMD}/limits": render_limits(stack="unlimited")}),
    "logind removes memory": ("limits-removeipc", {"/etc/systemd/logind.conf.d/90-jobs.conf": "[Login]\n"}),
    "the kernel moves pages": ("limits-numa-balancing-on", {"/proc/sys/kernel/numa_balancing": "1\n"}),
    "few watches": ("limits-inotify-low", {"/proc/sys/fs/inotify/max_user_watches": "8192\n"}),
    "few instances": ("limits-inotify-low", {"/proc/sys/fs/inotify/max_user_instances": "128\n"}),
    "a cgroup limits RDMA": (
        "limits-rdma-cgroup",
        {"/sys/fs/cgroup/kubepods.slice/pod1/rdma.max": "rail0 hca_handle=2 hca_object=max\n"},
    ),
    "slurmd may lock 8 MiB": (
        "limits-memlock-for-host-jobs",
        {f"/proc/{SLURMD}/limits": render_limits(memlock="8388608")},
    ),
    "a later file limits everybody": (
        "limits-memlock-for-host-jobs",
        {"/etc/security/limits.d/95-site.conf": "# site\n* - memlock 65536\n"},
    ),
}


@pytest.mark.parametrize(("fault", "files"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_first(fault: str, files: dict[str, str | None]) -> None:
    assert find_first_fault(build_services_view(change_files(files)), LIMITS) == fault


def test_a_sound_host_passes_all_of_them() -> None:
    findings = list_findings(build_services_view(), LIMITS)
    assert {finding.id for finding in findings} == {fault for fault, _ in FAULTS.values()}
    assert {finding.verdict for finding in findings} == {"pass"}


def test_a_host_without_containers_and_jobs_has_nothing_to_judge() -> None:
    assert list_findings(build_services_view(Snapshot()), LIMITS) == ()


def test_a_low_limit_that_a_later_file_lifts_is_sound() -> None:
    files: dict[str, str | None] = {"/etc/security/limits.conf": "* soft memlock 64\n* hard memlock 64\n"}
    assert find_first_fault(build_services_view(change_files(files)), LIMITS) is None
