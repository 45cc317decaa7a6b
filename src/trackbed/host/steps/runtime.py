"""Step runtime: containers may lock the memory that RDMA registers, and the agent knows what it may hand out.

Kubernetes has no field for RLIMIT_MEMLOCK; containers inherit it from the runtime's service (systemd.exec(5),
LimitMEMLOCK). Without it ibv_reg_mr fails in pods ("Couldn't allocate MR"), or NCCL quietly takes sockets. The limit
comes with the runtime's next start: a restart, which Trackbed leaves to a person, or the next boot.

The node's plan lies in a file, for `trackbed agent run` on this host: what gives pods their rails needs nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import write_node
from trackbed.host.kinds import file, memlock
from trackbed.host.setting import HEAD, Setting

STEP = "runtime"
IS_RENDERED = False
HAS_FILES = True

_UNITS = tuple(
    f"{folder}/containerd.service"
    for folder in (
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
        "/etc/systemd/system",
        "/usr/local/lib/systemd/system",
    )
)
_LACK = "no containerd service is installed here"


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """The service's limit, and that of the containerd that runs; nothing on a node without ports."""
    if not node.ports:
        return
    why = "RDMA in pods locks the memory it registers"
    drop_in = file.Want(
        file.CONTAINERD_DROP_IN,
        f"{HEAD}[Service]\nLimitMEMLOCK=infinity\n",
        _UNITS,
        _LACK,
        after=("systemctl", "daemon-reload"),
    )
    yield Setting(STEP, drop_in, None, why)
    yield Setting(STEP, memlock.Want("containerd", drop_in.path), None, why)
    plan = file.Want(file.NODE_PLAN, f"{write_node(node).decode()}\n", _UNITS, _LACK)
    yield Setting(STEP, plan, None, "the agent gives pods the rails and addresses of this node")
