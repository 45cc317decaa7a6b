"""A check that lacks an input never passes, and an input that cannot be read is never passed over in silence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doctor.host import test_qos
from tests.doctor.host.changing import change_host, make_unreadable
from tests.doctor.host.test_hostile_files import VIEWS
from tests.doctor.recording import Input, Reading, record_reads, refuse_input, remove_input
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.checks import run_checks
from trackbed.doctor.finding import BROKEN, Finding
from trackbed.doctor.view import NodeView
from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.state import HostState

SOUND: dict[str, Callable[[], NodeView]] = {
    **{f"host {number}": build for number, build in enumerate(VIEWS)},
    "network": lambda: build_sound_view(compute_small_plan().nodes[0]),
}
NOTHING = HostState(Machine(Path("/nowhere")), (), (), (), (), ())


@pytest.mark.parametrize("build", SOUND.values(), ids=SOUND)
def test_no_check_passes_where_nothing_could_be_read(build: Callable[[], NodeView]) -> None:
    view = NodeView(node=build().node, state=NOTHING, host=Snapshot())
    assert {finding.id for finding in run_checks(view) if finding.verdict == "pass"} == set()


def drop_links(view: NodeView) -> NodeView:
    names = {port.netdev for port in view.node.ports}
    links = tuple(link for link in view.state.links if link.name not in names)
    return replace(view, state=replace(view.state, links=links))


MISSING: dict[str, tuple[Callable[[NodeView], NodeView], set[str]]] = {
    "the ports' interfaces": (
        drop_links,
        {
            *("addr-link-admin-down", "addr-no-carrier", "addr-missing", "addr-mtu-wrong", "addr-unplanned-extra"),
            *("route-table-id-shared", "route-linkdown-kept", "route-default-through-rail", "route-table-empty"),
            *("route-two-connected-for-one-subnet", "route-source-hint-wrong"),
        },
    ),
    "sysctls": (
        lambda view: replace(view, sysctls={}),
        {"addr-arp-flux", "addr-router-advertisement-default", "route-rp-filter-strict"},
    ),
    "boot-time files": (lambda view: replace(view, unpersisted_files=None), {"addr-not-persistent"}),
    "the firewall": (lambda view: replace(view, chains=None), {"route-firewall-drops-rails"}),
    "paths of management addresses": (
        lambda view: replace(view, management_paths={}),
        {"route-host-traffic-on-rail"},
    ),
}


@pytest.mark.parametrize(("drop", "fault_ids"), MISSING.values(), ids=MISSING)
def test_a_check_is_unknown_without_its_input(drop: Callable[[NodeView], NodeView], fault_ids: set[str]) -> None:
    findings = tuple(run_checks(drop(SOUND["network"]())))
    assert {finding.id for finding in findings if finding.verdict == "unknown"} == fault_ids
    assert {finding.id for finding in findings if finding.verdict == "pass"} & fault_ids == set()


@pytest.mark.parametrize("build", VIEWS, ids=list(SOUND)[:-1])
def test_no_pass_remains_that_needed_a_refused_input(build: Callable[[], NodeView]) -> None:
    view = build()
    remaining = {}
    for refused, readings in _group_by_input(view).items():
        verdicts = _judge(refuse_input(refused)(view), readings)
        needed = {_get_key(reading.finding) for reading in readings if reading.finding.verdict == "pass"}
        if passes := {key for key in needed if verdicts.get(key) == {"pass"}}:
            remaining[refused] = passes
    assert remaining == {}


@pytest.mark.parametrize("build", VIEWS, ids=list(SOUND)[:-1])
def test_a_refused_input_is_no_fault(build: Callable[[], NodeView]) -> None:
    view = build()
    faults = {}
    for refused, readings in _group_by_input(view).items():
        known = _list_broken(view, readings)
        if broken := _list_broken(refuse_input(refused)(view), readings) - known:
            faults[refused] = broken
    assert faults == {}


@pytest.mark.parametrize("build", VIEWS, ids=list(SOUND)[:-1])
def test_every_input_that_a_vanished_finding_needed_is_named_by_an_unknown_one(build: Callable[[], NodeView]) -> None:
    view = build()
    silent = {}
    for refused, readings in _group_by_input(view).items():
        findings = tuple(run_checks(refuse_input(refused)(view), _list_steps(readings)))
        vanished = {_get_key(reading.finding) for reading in readings} - set(map(_get_key, findings))
        text = refused.key if isinstance(refused.key, str) else " ".join(refused.key)
        if vanished and not any(finding.verdict == "unknown" and text in finding.evidence for finding in findings):
            silent[refused] = vanished
    assert silent == {}


def _group_by_input(view: NodeView) -> dict[Input, list[Reading]]:
    groups: dict[Input, list[Reading]] = {}
    for reading in record_reads(view):
        for read in reading.inputs:
            groups.setdefault(read, []).append(reading)
    return groups


def _list_steps(readings: list[Reading]) -> set[str]:
    return {reading.module.partition(".")[0] for reading in readings}


def _get_key(finding: Finding) -> tuple[str, int | None]:
    return finding.id, finding.rail


def _judge(view: NodeView, readings: list[Reading]) -> dict[tuple[str, int | None], set[str]]:
    verdicts: dict[tuple[str, int | None], set[str]] = {}
    for finding in run_checks(view, _list_steps(readings)):
        verdicts.setdefault(_get_key(finding), set()).add(finding.verdict)
    return verdicts


def _list_broken(view: NodeView, readings: list[Reading]) -> set[tuple[str, int | None]]:
    return {_get_key(finding) for finding in run_checks(view, _list_steps(readings)) if finding.verdict in BROKEN}


FAILURES = {
    "it fails": (1, "Could not open the device", {"unknown"}),
    "its device has no such value": (76, "netlink error: Operation not supported", set()),
}


@pytest.mark.parametrize(("status", "output", "verdicts"), FAILURES.values(), ids=FAILURES)
def test_a_program_that_fails_is_no_answer(status: int, output: str, verdicts: set[str]) -> None:
    view = test_qos.build_view()
    command: tuple[str, ...] = ("ethtool", "-S", "rail1")
    outputs = {command: ProgramResult(status, output)}
    failed = change_host(outputs=outputs)(view)
    findings = [finding for finding in run_checks(failed, {"qos"}) if " ".join(command) in finding.evidence]
    assert {finding.verdict for finding in findings} == verdicts


def test_a_program_that_finds_nothing_has_answered() -> None:
    command: tuple[str, ...] = ("ps", "-C", "kubelet", "-o", "args=")
    findings = run_checks(change_host(outputs={command: ProgramResult(1, "")})(SOUND["host 0"]()), {"kubelet"})
    assert "unknown" not in {finding.verdict for finding in findings}


def test_what_a_fault_would_be_is_shown_where_an_unreadable_path_may_explain_it() -> None:
    sockets = "/var/lib/kubelet/device-plugins"
    findings = run_checks(refuse_input(Input("folders", sockets))(SOUND["host 0"]()), {"kubelet"})
    (finding,) = (finding for finding in findings if finding.id == "kubelet-plugin-socket-missing")
    assert (finding.verdict, finding.fix) == ("unknown", "")
    assert finding.evidence == (
        f"{sockets}: Permission denied; without that: "
        f"kubelet's folder is /var/lib/kubelet; no kubelet.sock in {sockets}"
    )


def test_a_missing_list_of_iommu_groups_is_unknown() -> None:
    removed = remove_input(Input("folders", "/sys/kernel/iommu_groups"))(SOUND["host 1"]())
    (finding,) = (finding for finding in run_checks(removed, {"cmdline"}) if finding.id == "cmdline-iommu-off")
    assert (finding.verdict, finding.evidence) == ("unknown", "/sys/kernel/iommu_groups was not listed")


def test_what_a_device_does_not_have_is_not_unreadable() -> None:
    view = SOUND["host 0"]()
    assert view.host
    path = "/proc/sys/kernel/numa_balancing"
    assert [f.id for f in run_checks(make_unreadable(path)(view), {"limits"}) if path in f.evidence] != []
    absent = replace(view.host, files={}, unreadable={path: os.strerror(errno.EOPNOTSUPP)})
    assert [f.id for f in run_checks(replace(view, host=absent), {"limits"}) if path in f.evidence] == []
