"""Every fault of the catalogue, made in a real lab, named by doctor, healed, and sound again."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab import faults
from trackbed_lab.lab import Lab

from tests.lab.sandboxes import keeper
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.diagnosis import Diagnosis
from trackbed.doctor.finding import BROKEN

pytestmark = pytest.mark.needs("processes")

SECONDS = 300.0
"""All faults of one lab take a third of this on two slow cores."""
MACS = "".join(f'\n        n{n}: ["02:00:00:00:0{n}:00", "02:00:00:00:0{n}:01"]' for n in range(4))
HEAD = (
    "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: broken}\nspec:\n  rails: 2\n  nodesPerUnit: 2\n"
)
ROUTED = f"""{HEAD}  nodes:
    - hosts: n[0-3]
      ports: [{{netdev: a0}}, {{netdev: a1}}]
      hostPorts:{MACS}
  addressing: {{scheme: point-to-point, ipv4: 10.0.0.0/15, ipv6: "fd00::/32"}}
"""
WITH_PODS = f"""{HEAD}  nodes: [{{hosts: "n[0-3]"}}]
  addressing: {{scheme: node-subnet, ipv4: 10.0.0.0/15}}
"""
IN_PODS = ("cni-interface-exists", "cni-interface-sysctls-reset", "pod-rail-routes-missing")
ON_HOSTS = tuple(fault for fault in faults.FAULTS if fault not in IN_PODS)
OF_THE_HOST = {
    "names-too-long",
    "addr-docker0-overlap",
    "addr-pod-cidr-overlap",
    "addr-not-persistent",
    "route-two-connected-for-one-subnet",
    "route-host-traffic-on-rail",
    "route-firewall-drops-rails",
    "cni-interface-exists",
}
"""Faults that are about no single rail."""
SEVERAL_RAILS = {"fabric-port-on-wrong-leaf", "route-rule-shadowed", "fabric-cross-rail-differs-from-plan"}
"""A crossed cable has two ends, one early rule shadows all rails, a policy between two rails shows on both."""


def _run(folder: Path, fabric: str, chosen: Iterable[str], *, pods: bool) -> dict[str, Any]:
    """Make each fault in one lab; what was found of each, by id."""
    files, report = folder / "fs", folder / "told"
    files.mkdir()

    def work() -> int:
        lab = Lab(files)
        lab.build(fabric.encode())
        lab.start_speaker()
        lab.apply()
        lab.start_agents()
        if pods:
            lab.add_pods()
        report.write_text(json.dumps({fault: _tried(lab, fault) for fault in chosen}))
        return 0

    with ExitStack() as stack:
        pid = stack.enter_context(keeper(work, files))
        watched = os.pidfd_open(pid)
        stack.callback(os.close, watched)
        assert select.select([watched], [], [], SECONDS)[0], "the lab takes too long"
    if not report.exists():
        pytest.skip("this machine does not allow namespaces for a lab")
    result: dict[str, Any] = json.loads(report.read_text())
    return result


def _tried(lab: Lab, fault: str) -> dict[str, Any]:
    place = faults.find_target(lab)
    before = _broken(lab.diagnose())
    faults.inject_fault(place, fault)
    diagnosis = lab.diagnose()
    faults.heal_fault(place, fault)
    first = diagnosis.first
    return {
        "before": before,
        "first": [first.id, first.node, first.rail] if first else None,
        "named": {f.id: f.because for f in diagnosis.findings if f.verdict in BROKEN},
        "after": _broken(lab.diagnose()),
    }


def _broken(diagnosis: Diagnosis) -> list[str]:
    return [f"{f.id} {f.node} {f.rail}: {f.evidence}" for f in diagnosis.findings if f.verdict != "pass"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of every fault: hosts and switches in one lab, pods in another."""
    hosts = _run(tmp_path_factory.mktemp("hosts"), ROUTED, ON_HOSTS, pods=False)
    return hosts | _run(tmp_path_factory.mktemp("pods"), WITH_PODS, IN_PODS, pods=True)


NETWORK = {"addresses", "routing", "cni", "pod", "fabric", "switch"}
"""Steps whose faults a network namespace can have; faults of other steps are made in emulated servers."""


def test_every_fault_that_is_made_is_in_the_catalogue() -> None:
    assert set(faults.FAULTS) <= set(load_catalogue())
    assert len([fault for fault in faults.FAULTS if load_catalogue()[fault].step in NETWORK]) >= 42


@pytest.mark.parametrize("fault", [fault for fault in faults.FAULTS if fault != "route-linkdown-kept"])
def test_doctor_names_the_fault_first(outcomes: dict[str, Any], fault: str) -> None:
    assert outcomes[fault]["first"] is not None
    assert outcomes[fault]["first"][0] == fault


def test_a_route_over_a_dead_link_is_named_beside_the_dead_link(outcomes: dict[str, Any]) -> None:
    """The link without carrier is the cause, so it comes first; the route that stays says because of what."""
    outcome = outcomes["route-linkdown-kept"]
    assert outcome["first"][0] == "addr-no-carrier"
    assert outcome["named"]["route-linkdown-kept"] == "addr-no-carrier"


@pytest.mark.parametrize("fault", [f for f in faults.FAULTS if f not in OF_THE_HOST | SEVERAL_RAILS])
def test_doctor_names_the_rail(outcomes: dict[str, Any], fault: str) -> None:
    assert outcomes[fault]["first"][2] == 1


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_the_lab_is_sound_before_and_after(outcomes: dict[str, Any], fault: str) -> None:
    assert outcomes[fault]["before"] == []
    assert outcomes[fault]["after"] == []
