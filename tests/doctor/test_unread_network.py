"""A netlink dump that fails, and an agent that is silent, make unknown what needs them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.doctor.host import cases, test_qos
from tests.doctor.sound import build_sound_view
from tests.doctor.test_checks import FAULTS, NODE, add_pod
from trackbed.doctor.across.excerpt import excerpt_node
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.finding import BROKEN
from trackbed.doctor.view import AGENT, STATE_DUMPS, NodeView

LOST = "No buffer space available"


def lose_dump(view: NodeView, name: str) -> NodeView:
    lost: dict[str, Any] = {name: ()}
    return replace(view, state=replace(view.state, **lost), unread={name: LOST})


def lose_agent(view: NodeView) -> NodeView:
    return replace(view, pods=(), refusals=(), unread={AGENT: LOST})


def list_verdicts(view: NodeView) -> dict[str, set[str]]:
    verdicts: dict[str, set[str]] = {}
    for finding in run_checks(view):
        verdicts.setdefault(finding.id, set()).add(finding.verdict)
    return verdicts


def changes_dump(fault_id: str, name: str) -> bool:
    sound = build_sound_view(NODE)
    return bool(getattr(FAULTS[fault_id](sound).state, name) != getattr(sound.state, name))


@pytest.mark.parametrize("name", STATE_DUMPS)
def test_no_fault_of_a_lost_dump_passes_or_is_reported(name: str) -> None:
    verdicts = list_verdicts(lose_dump(build_sound_view(NODE), name))
    needing = {fault_id for fault_id in FAULTS if changes_dump(fault_id, name)}
    assert {fault_id for fault_id in needing if "pass" in verdicts.get(fault_id, ())} == set()
    assert {fault_id for fault_id in verdicts if verdicts[fault_id] & BROKEN} == set()


@pytest.mark.parametrize("name", STATE_DUMPS)
def test_a_lost_dump_is_named(name: str) -> None:
    view = lose_dump(build_sound_view(NODE), name)
    unknown = [finding for finding in run_checks(view) if finding.verdict == "unknown"]
    assert bool(unknown) is (name != "neighbours")  # no check reads these
    assert all(f"{name}: {LOST}" in finding.evidence for finding in unknown)


KEPT = {
    "addresses": {
        "addr-link-admin-down",
        "addr-no-carrier",
        "addr-mtu-wrong",
        "route-rule-missing",
        "route-table-empty",
    },
    "routes": {"addr-link-admin-down", "addr-missing", "addr-mtu-wrong", "fabric-same-rail-unreachable"},
    "rules": {"addr-missing", "addr-arp-flux", "fabric-lldp-silent", "route-rp-filter-strict", "route-linkdown-kept"},
    "neighbours": set(FAULTS) & set(list_verdicts(build_sound_view(NODE))),
}


@pytest.mark.parametrize(("name", "fault_ids"), KEPT.items(), ids=KEPT)
def test_checks_that_do_not_need_a_lost_dump_pass(name: str, fault_ids: set[str]) -> None:
    verdicts = list_verdicts(lose_dump(build_sound_view(NODE), name))
    assert {fault_id: verdicts[fault_id] for fault_id in fault_ids} == {key: {"pass"} for key in fault_ids}


def test_a_fault_that_the_other_dumps_show_is_first() -> None:
    first = diagnose_nodes([lose_dump(FAULTS["addr-link-admin-down"](build_sound_view(NODE)), "routes")]).first
    assert first is not None
    assert first.id == "addr-link-admin-down"


def test_a_silent_agent_makes_unknown_what_only_it_knows() -> None:
    sound = list_verdicts(build_sound_view(NODE))
    findings = [finding for finding in run_checks(lose_agent(build_sound_view(NODE))) if finding.verdict == "unknown"]
    assert {(finding.step, finding.evidence) for finding in findings} == {
        ("cni", f"{AGENT}: {LOST}"),
        ("pod", f"{AGENT}: {LOST}"),
    }
    verdicts = list_verdicts(lose_agent(build_sound_view(NODE)))
    assert {fault_id: verdicts[fault_id] for fault_id in sound} == sound


def test_without_its_agent_a_port_that_lost_carrier_may_have_been_in_a_pod() -> None:
    verdicts = list_verdicts(lose_agent(FAULTS["fabric-link-flapping"](build_sound_view(NODE))))
    assert verdicts["fabric-link-flapping"] == {"pass", "unknown"}


def test_a_pod_that_cannot_be_read_is_unknown_and_the_others_are_checked() -> None:
    view = add_pod()(build_sound_view(NODE))
    (pod,) = view.pods
    lost = replace(pod, name="pod-b", unread="Permission denied")
    findings = list(run_checks(replace(view, pods=(lost, pod)), {"cni", "pod"}))
    verdicts = sorted((finding.id, finding.verdict) for finding in findings)
    assert verdicts == [
        ("cni-interface-exists", "pass"),
        ("cni-interface-sysctls-reset", "pass"),
        ("cni-interface-sysctls-reset", "unknown"),
        ("pod-rail-routes-missing", "fail"),  # this pod is in the state of the host
        ("pod-rail-routes-missing", "unknown"),
    ]
    assert {finding.evidence for finding in findings if finding.verdict == "unknown"} == {
        "pod pod-b was not read: Permission denied"
    }


PORTS: dict[str, tuple[Callable[[], NodeView], str]] = {
    "vfs": (cases.build_vfs, "vfs"),
    "dcb": (test_qos.build_view, "qos"),
}


@pytest.mark.parametrize(("name", "build", "step"), [(name, *row) for name, row in PORTS.items()], ids=PORTS)
def test_a_port_whose_query_failed_does_not_pass(name: str, build: Callable[[], NodeView], step: str) -> None:
    view = build()
    kept = {netdev: value for netdev, value in getattr(view, name).items() if netdev != "rail1"}
    values: dict[str, Any] = {name: kept, "unread": {f"{name} rail1": LOST}}
    findings = tuple(run_checks(replace(view, **values), {step}))
    assert any(finding.verdict == "unknown" and f"{name} rail1: {LOST}" in finding.evidence for finding in findings)
    assert [finding for finding in findings if finding.verdict in BROKEN] == []


@pytest.mark.parametrize("name", ["links", "addresses"])
def test_what_two_nodes_share_is_not_known_where_a_dump_was_lost(name: str) -> None:
    excerpt = excerpt_node(lose_dump(build_sound_view(NODE), name))
    assert (excerpt.ports, excerpt.macs, excerpt.addresses) == (None, None, None)


def test_macs_of_vfs_are_not_known_where_the_query_of_a_port_failed() -> None:
    view = replace(build_sound_view(NODE), unread={f"vfs {NODE.ports[1].netdev}": LOST})
    assert excerpt_node(view).gaps["macs"] == f"VFs cannot be listed: {LOST}"
