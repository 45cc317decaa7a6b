"""Inspection of a node whose agent reports attachments."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.sound import compute_small_plan
from tests.kernel.wire.cabling import cable
from tests.namespaces import fresh_netns
from trackbed.doctor.inspection import InspectionTarget, inspect_node
from trackbed.doctor.probes import ProbeTimeouts
from trackbed.doctor.view import AGENT, BOOT_FILES
from trackbed.host.boot_id import read_boot_id
from trackbed.host.journal_records import frame_record
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import JOURNAL
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import ReplyTimeoutError, Socket

pytestmark = pytest.mark.needs("namespaces")


def build_attachment(netns: str, name: str, mode: str) -> dict[str, Any]:
    """Return the agent's status of a pod that has rail 0 as interface `name`."""
    address = {"text": "10.0.0.1/31", "gateway": ""}
    return {
        "container": name,
        "netns": netns,
        "mode": mode,
        "ports": [{"rail": 0, "name": name, "addresses": [address]}],
    }


def test_a_pod_is_probed_though_the_agent_still_reports_one_whose_namespace_is_gone() -> None:
    plan = compute_small_plan()
    with fresh_netns() as host, fresh_netns() as pod, fresh_netns() as leaf:
        port, _ = cable(pod, "10.0.0.1/31", leaf, "")
        folder = Path(f"/proc/{os.getpid()}/fd")
        stale, live = (
            build_attachment("/nonexistent", "net9", "macvlan"),
            build_attachment(f"{folder}/{pod}", port.name, "move"),
        )
        target = InspectionTarget(
            Machine(Path("/"), folder / str(host)), plan.nodes[0], lambda: {"attachments": [stale, live]}
        )
        view = inspect_node(target, plan, ProbeTimeouts(0.01, 0.01))
    assert (len(view.pods), set(view.probes)) == (1, {0})


def test_a_port_in_a_pod_is_known_from_the_journal_although_no_agent_answers(tmp_path: Path) -> None:
    plan = compute_small_plan()
    ports = [{"rail": 0, "mac": "", "host": {"name": plan.nodes[0].ports[0].netdev}}]
    attachment = {"container": "c1", "ifname": "net1", "boot": read_boot_id(), "ports": ports}
    journal = tmp_path / JOURNAL.lstrip("/")
    journal.parent.mkdir(parents=True)
    journal.write_bytes(frame_record(json.dumps({"record": "held", "attachment": attachment}).encode()))
    with fresh_netns() as host:
        machine = Machine(tmp_path, Path(f"/proc/{os.getpid()}/fd/{host}"))
        view = inspect_node(InspectionTarget(machine, plan.nodes[0]), plan, ProbeTimeouts(0.01, 0.01))
    assert view.rails_in_pods == {0}


RTM_GETRULE = 34
"""include/uapi/linux/rtnetlink.h."""


class Deaf(Machine):
    """A machine whose kernel does not list its rules."""

    def open_socket(self) -> Socket:
        """Return a socket on which this one listing fails."""
        return DeafSocket(netns=self.netns)


class DeafSocket(Socket):
    """A socket on which the listing of rules fails."""

    def dump(self, message: Message, *arguments: Any, **named: Any) -> Any:
        """Fail where rules are asked for."""
        if message.type == RTM_GETRULE:
            raise ReplyTimeoutError("no reply within 2 s")
        return super().dump(message, *arguments, **named)


def test_a_listing_that_fails_ends_neither_the_others_nor_doctor(tmp_path: Path) -> None:
    plan = compute_small_plan()
    with fresh_netns() as host:
        machine = Deaf(tmp_path, Path(f"/proc/{os.getpid()}/fd/{host}"))
        view = inspect_node(InspectionTarget(machine, plan.nodes[0]), plan, ProbeTimeouts(0.01, 0.01))
    assert view.unread == {"rules": "no reply within 2 s", BOOT_FILES: "no reply within 2 s"}
    assert (view.state.rules, [link.name for link in view.state.links]) == ((), ["lo"])


def test_a_pod_whose_namespace_cannot_be_entered_is_unread() -> None:
    plan = compute_small_plan()
    with fresh_netns() as host:
        attachment = build_attachment("/proc/self/status", "net1", "macvlan")  # a file, and no namespace
        machine = Machine(Path("/"), Path(f"/proc/{os.getpid()}/fd/{host}"))
        target = InspectionTarget(machine, plan.nodes[0], lambda: {"attachments": [attachment]})
        view = inspect_node(target, plan, ProbeTimeouts(0.01, 0.01))
    assert [(pod.name, bool(pod.unread)) for pod in view.pods] == [("net1", True)]


def test_a_silent_agent_is_named_and_does_not_end_doctor() -> None:
    def refuse() -> dict[str, Any]:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    plan = compute_small_plan()
    with fresh_netns() as host:
        machine = Machine(Path("/"), Path(f"/proc/{os.getpid()}/fd/{host}"))
        view = inspect_node(InspectionTarget(machine, plan.nodes[0], refuse), plan, ProbeTimeouts(0.01, 0.01))
    assert view.unread[AGENT].startswith("it does not answer (Connection refused)")
