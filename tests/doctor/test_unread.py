"""A check that lacks an input never passes, and an input that cannot be read is never passed over in silence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doctor.host.changing import make_unreadable
from tests.doctor.host.test_hostile_files import VIEWS
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.checks import run_checks
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.machine import Machine
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
def test_every_file_that_a_vanished_finding_needed_is_named_by_an_unknown_one(build: Callable[[], NodeView]) -> None:
    view = build()
    assert view.host
    sound = {(finding.id, finding.rail) for finding in run_checks(view)}
    silent = {}
    for path in view.host.files:
        findings = tuple(run_checks(make_unreadable(path)(view)))
        vanished = sound - {(finding.id, finding.rail) for finding in findings}
        if vanished and not any(_is_about(finding, path) for finding in findings):
            silent[path] = vanished
    assert silent == {}


def _is_about(finding: Finding, path: str) -> bool:
    return finding.verdict == "unknown" and path in finding.evidence


def test_what_a_device_does_not_have_is_not_unreadable() -> None:
    view = SOUND["host 0"]()
    assert view.host
    path = "/proc/sys/kernel/numa_balancing"
    assert [f.id for f in run_checks(make_unreadable(path)(view), {"limits"}) if path in f.evidence] != []
    absent = replace(view.host, files={}, unreadable={path: os.strerror(errno.EOPNOTSUPP)})
    assert [f.id for f in run_checks(replace(view, host=absent), {"limits"}) if path in f.evidence] == []
