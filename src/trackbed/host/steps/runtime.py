"""Step runtime: containers may lock the memory that RDMA registers, and the agent has the plan of its node.

Kubernetes has no field for RLIMIT_MEMLOCK; containers inherit it from the runtime's service (systemd.exec(5),
LimitMEMLOCK). Without it ibv_reg_mr fails in pods ("Couldn't allocate MR"), or NCCL silently uses sockets. The limit
takes effect when the runtime starts: at a restart by the user, or at the next boot. The service is that of containerd,
CRI-O, RKE2 or k3s, whichever is installed.

The plan of the node is in a file for `trackbed agent run`, so that the agent needs no other service.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import file, memlock
from trackbed.host.setting import HEAD, Setting

STEP = "runtime"
HAS_FILES = True

_FOLDERS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system", "/usr/local/lib/systemd/system")
_PROCESSES = ("containerd", "crio")
"""Names of the processes whose limit containers inherit; CRI-O clears other limits (getSpecGen, cri-o f954a17e50)."""


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the limit of each runtime's service and of the running runtime, and the plan; nothing without ports."""
    if not node.ports:
        return
    why = "RDMA in pods locks the memory it registers"
    for unit, path in file.RUNTIME_DROP_INS.items():
        yield Setting(STEP, _build_drop_in(unit, path), None, why)
    for process in _PROCESSES:
        yield Setting(STEP, memlock.Want(process, tuple(file.RUNTIME_DROP_INS.values())), None, why)
    plan = file.Want(file.NODE_PLAN, f"{encode_node(node).decode()}\n")
    yield Setting(STEP, plan, None, "the agent gives pods the rails and addresses of this node")


def _build_drop_in(unit: str, path: str) -> file.Want:
    return file.Want(
        path,
        f"{HEAD}[Service]\nLimitMEMLOCK=infinity\n",
        tuple(f"{folder}/{unit}.service" for folder in _FOLDERS),
        "no such container runtime is installed here",
        reload_command=("systemctl", "daemon-reload"),
    )
