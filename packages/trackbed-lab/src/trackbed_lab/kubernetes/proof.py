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

_MOVER = "/run/trackbed-lab-mover"
_MOVE_DEVICES = f"""\
setsid sh -c 'echo $$ >{_MOVER}
for second in $(seq 600); do
    sleep 1
    for netns in $(ls /run/netns); do
        ip netns exec $netns rdma link show | grep " netdev " | grep -v " netdev eth0" | while read -r _ link _; do
            device=${{{{link%/1}}}}
            sleep 3
            rdma link delete $device && ip netns exec $netns rdma link add $device type rxe netdev eth0
        done
    done
done' </dev/null >{_MOVER}.log 2>&1 &
for try in $(seq 50); do [ -s {_MOVER} ] && exit; sleep 0.2; done
exit 1
"""
"""Makes the RDMA device of each pod that starts on the server one of eth0. The plugin is done with it in 3 s.

The server's agent kills what is in the shell's process group when that ends, so it waits for the other session.
"""
_STOP_MOVER = f"if [ -e {_MOVER} ]; then kill -- -$(cat {_MOVER}) && rm {_MOVER}; fi"

POD_FAULTS = tuple(
    fault._replace(break_script=_MOVE_DEVICES, heal_script=_STOP_MOVER) if fault.break_script else fault
    for fault in FAULTS
)
"""The faults; what is broken on a server's port is broken in its pods instead, as these have VFs."""
PROVED_PORT = 0
"""Index of the port whose rail is proved: one alone, as two cores emulate four nodes."""


def run_phases(run: ClusterRun, apply_stack: Callable[[ClusterRun], PhaseOutcome], prove: Prove) -> None:
    """Run all phases on a cluster whose servers have just come up."""
    vm_run = run.vm_run
    vm_run.run_phase("apply", lambda: vm.check_apply(vm_run, remote.apply_over_channel))
    for name, work in (("reboot", join_and_reboot), ("nodes", wait_for_nodes), ("stack", apply_stack)):
        vm_run.run_phase(name, partial(as_lab_errors, work, run))
    prove_faults(vm_run, POD_FAULTS, prove, PROVED_PORT)
