"""A run over emulated servers with a network manager of choice: apply, a real reboot, undo, another reboot.

factory    no setting of the plan is there; what is there is read
apply      `trackbed apply` writes the manager's files and requires a reboot
reboot     all servers reboot
again      a second `trackbed apply` changes nothing
doctor     all checks pass
undo       `trackbed apply --undo`, and a reboot
back       names, addresses, routes, rules and kernel arguments are what they were
"""

import difflib
from collections.abc import Mapping
from typing import Any

from trackbed_lab.run_result import Phase, PhaseOutcome
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.managers import MANAGERS

_STATE = """
udevadm settle --timeout=60
timeout 120 systemctl is-system-running --wait >/dev/null
for port in /sys/class/net/*; do echo "${port##*/} $(cat $port/address)"; done | sort
cat /sys/class/net/*/device/sriov_numvfs
ip -o -4 address show | awk '{print $2, $4}'
ip -o -6 address show scope global | awk '{print $2, $4}'
ip -4 rule; ip -6 rule; ip -4 route show table all | sed 's/ metric [0-9]*//'
cat /proc/cmdline
find /etc -type f -name '*trackbed*' | grep -v trackbed-lab
"""
"""What a server is called and reaches. IPv6 addresses of link scope come and go with the carrier, and NetworkManager
counts up the metric of a device in the order of activation."""


def run_phases(run: vm.VmRun, manager: str) -> tuple[Phase, ...]:
    """Run all phases on servers with this manager that have just come up."""
    before: list[str] = []
    run.run_phase("factory", lambda: _check_factory(run, before))
    run.run_phase("apply", lambda: vm.check_apply(run, lambda run: _apply(run, MANAGERS[manager].FILE)))
    run.run_phase("reboot", lambda: vm.reboot_servers(run))
    run.run_phase("again", lambda: vm.check_second_apply(run))
    run.run_phase("doctor", lambda: vm.check_doctor(run))
    run.run_phase("undo", lambda: _undo(run))
    run.run_phase("back", lambda: _compare_states(before, _read_states(run)))
    return tuple(run.phases)


def _check_factory(run: vm.VmRun, before: list[str]) -> PhaseOutcome:
    """Check that no setting of the plan is applied, and keep the state of each server."""
    before += _read_states(run)
    names = ", ".join(line.partition(" ")[0] for line in before[0].splitlines()[: len(run.plan.nodes[0].ports) + 2])
    summary, ok = vm.check_factory_state(run)
    return f"{summary}; {names}", ok


def _read_states(run: vm.VmRun) -> list[str]:
    return [result.output.decode() for result in run.run_on_servers(["sh", "-c", _STATE])]


def _apply(run: vm.VmRun, path: str) -> list[vm.CommandDocument]:
    """Apply; a server without the file of its manager counts as failed."""
    return [_require_file(document, path) for document in vm.apply_locally(run)]


def _require_file(document: vm.CommandDocument, path: str) -> vm.CommandDocument:
    answer: Mapping[str, Any] | None = document[0]
    if answer is not None and path not in answer["files"]:
        return None, f"{path} is not among the files: {', '.join(answer['files'])}"
    return document


def _undo(run: vm.VmRun) -> PhaseOutcome:
    results = run.run_on_servers(vm.build_trackbed_command("apply", "--undo"))
    failures = [result for result in results if result.status]
    if failures:
        return vm.summarize_output(failures[0]), False
    return vm.reboot_servers(run)


def _compare_states(before: list[str], after: list[str]) -> PhaseOutcome:
    """Check that each server is as it was in factory state."""
    changes = [
        line
        for old, new in zip(before, after, strict=True)
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    if changes:
        return f"{len(changes)} lines differ: {'; '.join(changes[:12])}", False
    lines = sum(len(state.splitlines()) for state in before)
    return f"all {lines} names, addresses, routes, rules and arguments of the servers are what they were", True
