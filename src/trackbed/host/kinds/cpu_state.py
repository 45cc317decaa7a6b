"""Kind CPU state: kubelet's CPU manager has no state file of another policy.

kubelet exits at startup if the policyName in the state file differs from its configuration.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from trackbed.host.change import Change, FileWrite, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.processes import find_processes
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent
from trackbed.host.setting import Setting

STATE = "/var/lib/kubelet/cpu_manager_state"


class Want(NamedTuple):
    """The state file of kubelet's CPU manager is absent or belongs to this policy."""

    policy: str

    def __str__(self) -> str:
        return "state of kubelet's CPU manager"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the removal of a state file of another policy, or advice while kubelet runs."""
    machine, subject = view.machine, str(want)
    text = Absent() if machine.shared_reason else machine.read(STATE)
    if isinstance(text, Absent):
        return Skipped(setting, subject, machine.shared_reason) if machine.shared_reason else None
    have = _parse_policy(text)
    if have is None:
        return Skipped(setting, subject, f"{STATE} cannot be read")
    if have == want.policy:
        return None
    if any(find_processes(machine, "kubelet")):
        advice = f"drain this node, systemctl stop kubelet, apply again (it removes {STATE}), systemctl start kubelet"
        return build_manual_change(setting, subject, have, want.policy, advice)
    return build_change(setting, subject, have, want.policy, (FileWrite(STATE, None, 0o600),))


def _parse_policy(text: object) -> str | None:
    try:
        policy = json.loads(text)["policyName"] if isinstance(text, str) else None
    except (ValueError, KeyError, TypeError):
        return None
    return policy if isinstance(policy, str) else None


KIND = Kind("cpu_state", (Want,), compare)
