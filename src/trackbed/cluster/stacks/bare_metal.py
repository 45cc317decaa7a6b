"""`bare-metal`: no Kubernetes; jobs run on the hosts, which have the rails themselves, by Slurm, mpirun or torchrun.

Site settings go where the libraries look for them (/etc/nccl.conf, /etc/ucx/ucx.conf), so no job can forget them.
Without exact names NCCL takes storage and management NICs too; without the units in topology.conf a job of one unit's
size may lie in two, and all its traffic crosses the spines. Formats: NCCL user guide, slurm.conf(5), gres.conf(5),
topology.conf(5), mpirun(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.cluster.stacks.nccl import off_rails, variables
from trackbed.cluster.stacks.rails import port_hcas
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.plan.plan import NodePlan, Plan


def _files(plan: Plan) -> dict[str, str]:
    settings = variables(plan, port_hcas(plan), off_rails(plan))
    return {
        "hostfile": _text(f"{node.name} slots={_gpus(node)}" for node in plan.nodes),
        "nccl.conf": _text(_conf(settings, "NCCL_", "/etc/nccl.conf")),
        "ucx.conf": _text(_conf(settings, "UCX_", "/etc/ucx/ucx.conf")),
        "slurm.conf": _text(_slurm(plan)),
        "gres.conf": _text(_gres(plan)),
        "topology.conf": _text(_topology(plan)),
        "run.txt": _text(_run(plan)),
    }


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _gpus(node: NodePlan) -> int:
    return len({gpu for port in node.ports for gpu in port.gpus})


def _conf(settings: dict[str, str], prefix: str, place: str) -> Iterator[str]:
    yield f"# {place} on every node; what a job sets in its environment comes first."
    yield from (f"{name}={value}" for name, value in settings.items() if name.startswith(prefix))


def _by_gpus(plan: Plan) -> dict[int, list[str]]:
    """Number of GPUs -> the nodes that have so many."""
    found: dict[int, list[str]] = {}
    for node in plan.nodes:
        found.setdefault(_gpus(node), []).append(node.name)
    return found


def _slurm(plan: Plan) -> Iterator[str]:
    yield "# To add to slurm.conf; complete each NodeName line with what `slurmd -C` prints on such a node."
    yield "SelectType=select/cons_tres"
    yield "GresTypes=gpu"
    yield "TopologyPlugin=topology/tree"
    yield "# RDMA locks memory: jobs get slurmd's limit (LimitMEMLOCK=infinity in its unit), not the login shell's."
    yield "PropagateResourceLimitsExcept=MEMLOCK"
    for count, names in _by_gpus(plan).items():
        yield f"NodeName={fold_hosts(names)} Gres=gpu:{count} State=UNKNOWN"
    yield f"PartitionName={plan.common.fabric} Nodes={fold_hosts(node.name for node in plan.nodes)} State=UP"


def _gres(plan: Plan) -> Iterator[str]:
    for count, names in _by_gpus(plan).items():
        devices = f"/dev/nvidia[0-{count - 1}]" if count > 1 else "/dev/nvidia0"
        yield f"NodeName={fold_hosts(names)} Name=gpu File={devices}"


def _topology(plan: Plan) -> Iterator[str]:
    """A unit is one switch to Slurm: each rail of it has a leaf of its own, and all leaves hold the same nodes."""
    units: dict[int, list[str]] = {}
    for node in plan.nodes:
        units.setdefault(node.unit, []).append(node.name)
    for unit, names in sorted(units.items()):
        yield f"SwitchName=unit{unit} Nodes={fold_hosts(names)}"
    if len(units) > 1:
        yield f"SwitchName=spine Switches={fold_hosts(f'unit{unit}' for unit in units)}"


def _run(plan: Plan) -> Iterator[str]:
    """Command lines for a first job on all nodes; nccl-tests' all_reduce_perf stands for it."""
    counts = _by_gpus(plan)
    total = sum(count * len(names) for count, names in counts.items())
    each = str(next(iter(counts))) if len(counts) == 1 else "gpu"
    off, first = off_rails(plan).removeprefix("^="), plan.nodes[0].name
    yield "# Open MPI: ranks talk TCP to find each other, and that must not be over a rail."
    yield (
        f"mpirun --hostfile hostfile -np {total} --bind-to numa --mca oob_tcp_if_exclude {off} "
        f"--mca btl_tcp_if_exclude {off} -x LD_LIBRARY_PATH ./all_reduce_perf -b 8M -e 8G -f 2 -g 1"
    )
    yield ""
    yield "# torchrun, on every node."
    yield (
        f"torchrun --nnodes={len(plan.nodes)} --nproc-per-node={each} --rdzv-id={plan.common.fabric} "
        f"--rdzv-backend=c10d --rdzv-endpoint={first}:29500 train.py"
    )
    if len(counts) == 1:
        yield ""
        yield "# Slurm, a task for each GPU."
        yield (
            f"srun --partition={plan.common.fabric} --nodes={len(plan.nodes)} --ntasks-per-node={each} "
            f"--gpus-per-node={each} --mpi=pmix ./all_reduce_perf -b 8M -e 8G -f 2 -g 1"
        )


STACK = Stack(
    name="bare-metal",
    title="No Kubernetes: jobs run on the hosts and use the ports themselves, by Slurm, mpirun or torchrun",
    needs=(
        "hosts set up by `trackbed apply`",
        "NCCL 2.30 or later for the rail in NCCL_IB_HCA",
        "memlock unlimited for sshd, slurmd and login shells",
    ),
    cannot=("keeping two jobs on one node apart", "the same with pods: see the other stacks"),
    files=_files,
)
