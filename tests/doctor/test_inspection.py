"""Inspecting a node whose agent reports attachments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.doctor.sound import small_plan
from tests.kernel.wire.cabling import cable
from tests.namespaces import fresh_netns
from trackbed.doctor.inspection import Subject, inspect_node
from trackbed.doctor.probes import Timeouts
from trackbed.host.machine import Machine


def build_attachment(netns: str, name: str, mode: str) -> dict[str, Any]:
    """Return the agent's account of a pod that has rail 0 as interface `name`."""
    address = {"text": "10.0.0.1/31", "gateway": ""}
    return {
        "container": name,
        "netns": netns,
        "mode": mode,
        "ports": [{"rail": 0, "name": name, "addresses": [address]}],
    }


def test_a_pod_is_probed_though_the_agent_still_reports_one_whose_namespace_is_gone() -> None:
    plan = small_plan()
    with fresh_netns() as host, fresh_netns() as pod, fresh_netns() as leaf:
        port, _ = cable(pod, "10.0.0.1/31", leaf, "")
        folder = Path(f"/proc/{os.getpid()}/fd")
        stale, live = (
            build_attachment("/nonexistent", "net9", "macvlan"),
            build_attachment(f"{folder}/{pod}", port.name, "move"),
        )
        subject = Subject(Machine(Path("/"), folder / str(host)), plan.nodes[0], lambda: {"attachments": [stale, live]})
        view = inspect_node(subject, plan, Timeouts(0.01, 0.01))
    assert (len(view.pods), set(view.probes)) == (1, {0})
