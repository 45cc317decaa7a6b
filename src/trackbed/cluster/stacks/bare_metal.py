"""`bare-metal`: no Kubernetes; jobs run on the hosts and use their rails, by Slurm, mpirun or torchrun.

Settings are written where the libraries read them (/etc/nccl.conf, /etc/ucx/ucx.conf), so they apply to every job.
Without exact device names NCCL would also use storage and management NICs. Without the units in topology.conf a job
that fits in one unit may be spread over two, with traffic across the spines. Formats: NCCL user guide, slurm.conf(5),
gres.conf(5), topology.conf(5), mpirun(1).
"""

from collections.abc import Iterable, Iterator

from trackbed.cluster.stacks.nccl import build_host_socket_ifname, build_variables
from trackbed.cluster.stacks.rails import list_port_hcas
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import NO_PODS, Share, Traits, share_always
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.plan.plan import Plan


def _render_files(plan: Plan) -> dict[str, str]:
    settings = build_variables(plan, list_port_hcas(plan), build_host_socket_ifname(plan))
    return {
        "hostfile": _join_lines(f"{node.name} slots={node.count_gpus()}" for node in plan.nodes),
        "nccl.conf": _join_lines(_render_library_conf(settings, "NCCL_", "/etc/nccl.conf")),
        "ucx.conf": _join_lines(_render_library_conf(settings, "UCX_", "/etc/ucx/ucx.conf")),
        "slurm.conf": _join_lines(_render_slurm_conf(plan)),
        "gres.conf": _join_lines(_render_gres_conf(plan)),
        "topology.conf": _join_lines(_render_topology_conf(plan)),
        "run.txt": _join_lines(_render_launch_commands(plan)),
    }


def _join_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _render_library_conf(settings: dict[str, str], prefix: str, conf_path: str) -> Iterator[str]:
    """Yield the lines of a library's configuration file: the settings whose names begin with the prefix."""
    yield f"# {conf_path} on every node; what a job sets in its environment comes first."
    yield from (f"{name}={value}" for name, value in settings.items() if name.startswith(prefix))


def _group_node_names_by_gpu_count(plan: Plan) -> dict[int, list[str]]:
    """Return number of GPUs -> names of the nodes that have as many."""
    nodes: dict[int, list[str]] = {}
    for node in plan.nodes:
        nodes.setdefault(node.count_gpus(), []).append(node.name)
    return nodes


def _render_slurm_conf(plan: Plan) -> Iterator[str]:
    yield "# To add to slurm.conf; complete each NodeName line with what `slurmd -C` prints on such a node."
    yield "SelectType=select/cons_tres"
    yield "GresTypes=gpu"
    yield "TopologyPlugin=topology/tree"
    yield "# RDMA locks memory: jobs get slurmd's limit (LimitMEMLOCK=infinity in its unit), not the login shell's."
    yield "PropagateResourceLimitsExcept=MEMLOCK"
    for count, names in _group_node_names_by_gpu_count(plan).items():
        yield f"NodeName={fold_hosts(names)} Gres=gpu:{count} State=UNKNOWN"
    yield f"PartitionName={plan.common.fabric} Nodes={fold_hosts(node.name for node in plan.nodes)} State=UP"


def _render_gres_conf(plan: Plan) -> Iterator[str]:
    for count, names in _group_node_names_by_gpu_count(plan).items():
        devices = f"/dev/nvidia[0-{count - 1}]" if count > 1 else "/dev/nvidia0"
        yield f"NodeName={fold_hosts(names)} Name=gpu File={devices}"


def _render_topology_conf(plan: Plan) -> Iterator[str]:
    """Yield the lines of topology.conf. A unit is one switch in Slurm, as all its leaves connect the same nodes."""
    units: dict[int, list[str]] = {}
    for node in plan.nodes:
        units.setdefault(node.unit, []).append(node.name)
    for unit, names in sorted(units.items()):
        yield f"SwitchName=unit{unit} Nodes={fold_hosts(names)}"
    if len(units) > 1:
        yield f"SwitchName=spine Switches={fold_hosts(f'unit{unit}' for unit in units)}"


def _render_launch_commands(plan: Plan) -> Iterator[str]:
    """Yield example command lines that run all_reduce_perf of nccl-tests on all nodes: mpirun, torchrun, srun."""
    nodes_by_gpus = _group_node_names_by_gpu_count(plan)
    total = sum(count * len(names) for count, names in nodes_by_gpus.items())
    gpus_per_node = str(next(iter(nodes_by_gpus))) if len(nodes_by_gpus) == 1 else "gpu"
    rails, first_node = build_host_socket_ifname(plan).removeprefix("^="), plan.nodes[0].name
    yield "# Open MPI: ranks talk TCP to find each other, and that must not be over a rail."
    yield (
        f"mpirun --hostfile hostfile -np {total} --bind-to numa --mca oob_tcp_if_exclude {rails} "
        f"--mca btl_tcp_if_exclude {rails} -x LD_LIBRARY_PATH ./all_reduce_perf -b 8M -e 8G -f 2 -g 1"
    )
    yield ""
    yield "# torchrun, on every node."
    yield (
        f"torchrun --nnodes={len(plan.nodes)} --nproc-per-node={gpus_per_node} --rdzv-id={plan.common.fabric} "
        f"--rdzv-backend=c10d --rdzv-endpoint={first_node}:29500 train.py"
    )
    if len(nodes_by_gpus) == 1:
        yield ""
        yield "# Slurm, a task for each GPU."
        yield (
            f"srun --partition={plan.common.fabric} --nodes={len(plan.nodes)} --ntasks-per-node={gpus_per_node} "
            f"--gpus-per-node={gpus_per_node} --mpi=pmix ./all_reduce_perf -b 8M -e 8G -f 2 -g 1"
        )


STACK = Stack(
    name="bare-metal",
    title="No Kubernetes: jobs run on the hosts and use the ports themselves, by Slurm, mpirun or torchrun",
    traits=Traits(
        share_always(Share.HOST),
        "released",
        "files for Slurm, Open MPI and torchrun",
        lambda _: NO_PODS,
        only_for="hosts without Kubernetes",
    ),
    needs=(
        "hosts set up by `trackbed apply`",
        "NCCL 2.30 or later for the rail in NCCL_IB_HCA",
        "memlock unlimited for sshd, slurmd and login shells",
    ),
    cannot=("keeping two jobs on one node apart", "the same with pods: see the other stacks"),
    files=_render_files,
)
