"""A proof through pods: emulated servers become nodes, a stack gives rails to pods, and these measure them.

apply, reboot, nodes, stack    as in kubernetes/run.py, and in kubernetes/stacks/run.py
rate, sound, faults            as in vm/proof.py, from a pod on each node
"""

from collections.abc import Callable
from functools import partial

from trackbed_lab.kubernetes.run import ClusterRun, as_lab_errors, join_and_reboot, wait_for_nodes
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm import remote
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.proof import Prove, prove_faults
from trackbed_lab.vm.proof_faults import FAULTS

POD_FAULTS = tuple(fault for fault in FAULTS if not fault.break_script)
"""Faults outside of servers: what is broken on a port does not concern the VF of a pod."""
PROVED_PORT = 0
"""Index of the port whose rail is proved: one alone, as two cores emulate four nodes."""


def run_phases(run: ClusterRun, apply_stack: Callable[[ClusterRun], PhaseOutcome], prove: Prove) -> None:
    """Run all phases on a cluster whose servers have just come up."""
    vm_run = run.vm_run
    vm_run.run_phase("apply", lambda: vm.check_apply(vm_run, remote.apply_over_channel))
    for name, work in (("reboot", join_and_reboot), ("nodes", wait_for_nodes), ("stack", apply_stack)):
        vm_run.run_phase(name, partial(as_lab_errors, work, run))
    prove_faults(vm_run, POD_FAULTS, prove, PROVED_PORT)
