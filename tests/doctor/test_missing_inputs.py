"""Where a host lacks the very inputs in which a fault would show, the check of that fault does not pass."""

from __future__ import annotations

from dataclasses import replace
from itertools import starmap

from tests.doctor.host.cases import Case, iter_cases
from tests.doctor.recording import Input, remove_input
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.checks import run_checks
from trackbed.doctor.finding import BROKEN
from trackbed.doctor.view import NodeView

ABSENCE_IS_AN_ANSWER = {
    "addr-service-cidr-overlap": "the other of two files that name Services remains",
    "bios-above-4g-off": "windows and kernel log each show it",
    "bios-acs-redirect-on": "every PCI function has a file config, so a missing one has no bridge",
    "bios-cpu-governor-powersave": "a CPU that is off has no governor",
    "bios-gpu-missing": "the folder is that of a driver that is not loaded",
    "bios-pcie-errors": "the three counters of a device exist together",
    "driver-mixed-trees": "modinfo shows the trees, the log only adds symbols",
    "fw-link-type-wrong": "the interface and the RDMA device each show it",
    "fw-over-temperature": "the sensors show it",
    "limits-memlock-for-host-jobs": "a process that ended has no limits",
    "limits-nofile-low": "a process that ended has no limits",
    "limits-stack-unlimited": "a process that ended has no limits",
    "qos-cnp-dscp-wrong": "the DSCP remains, and the priority only goes with it",
    "qos-trust-not-dscp": "netlink shows it too",
    "rdma-active-mtu-low": "the interface's MTU shows it without ibv_devinfo",
    "rdma-stack-not-loaded": "a built-in module is not in /sys/module",
    "runtime-nri-disabled": "containerd has defaults without its file",
    "vfs-admin-mac-not-effective": "a VF in a pod has no interface on the host",
    "vfs-bound-to-vfio": "a VF without a driver is vfs-driver-missing",
}
"""Fault -> why its check may pass though what the fault changes is missing."""


def test_no_check_passes_without_what_its_fault_changes() -> None:
    remaining = {case.fault_id for case in iter_cases() if _passes_without_its_inputs(case)}
    assert remaining == set(ABSENCE_IS_AN_ANSWER)


def _passes_without_its_inputs(case: Case) -> bool:
    rails = {rail for fault_id, rail, verdict in _judge(case.faulty) if fault_id == case.fault_id and verdict in BROKEN}
    view, inputs = case.sound, _list_changed_inputs(case)
    for changed in inputs:
        view = remove_input(changed)(view)
    verdicts = {verdict for fault_id, rail, verdict in _judge(view) if fault_id == case.fault_id and rail in rails}
    return bool(inputs) and verdicts == {"pass"}


def _list_changed_inputs(case: Case) -> list[Input]:
    sound, faulty = case.sound.host, case.faulty.host
    assert sound
    assert faulty
    keys = [(kind, key) for kind in ("files", "links", "folders", "outputs") for key in getattr(sound, kind)]
    return [read for read in starmap(Input, keys) if getattr(sound, read.kind)[read.key] != _find(faulty, read)]


def _find(host: object, read: Input) -> object:
    values: dict[object, object] = getattr(host, read.kind)
    return values.get(read.key)


def _judge(view: NodeView) -> list[tuple[str, int | None, str]]:
    return [(finding.id, finding.rail, finding.verdict) for finding in run_checks(view)]


def _list_poor_views() -> list[NodeView]:
    sound = build_sound_view(compute_small_plan().nodes[0])
    views = [case.faulty for case in iter_cases()]
    without_ports = replace(sound, state=replace(sound.state, links=(), routes=(), rules=()))
    return [*views, without_ports, replace(without_ports, sysctls={}), replace(sound, unpersisted_files=None)]


def test_a_finding_other_than_a_pass_says_what_was_read() -> None:
    findings = [finding for view in _list_poor_views() for finding in run_checks(view)]
    assert {f.id for f in findings if f.verdict != "pass" and not f.evidence} == set()
