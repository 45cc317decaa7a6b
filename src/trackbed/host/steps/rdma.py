"""Step rdma: RDMA devices carry their rail's name, and belong to the namespace that the plan means.

    exclusive   a pod sees only the RDMA devices that were moved into it (VFs, whole ports)
    shared      all namespaces see all devices (macvlan over a shared port)

Written down in rdma-system(8) and rdma-dev(8). The mode is a parameter of ib_core, set for the next boot in
modprobe.d(5); names are given by a udev rule, whose number is below that of rdma-core's own 60-rdma-persistent-naming:
the first rename stands. Without the mode pods lose their devices; without names NCCL's HCA list differs on every host.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import file, rdma_name, rdma_namespaces
from trackbed.host.setting import HEAD, Setting

STEP = "rdma"
IS_RENDERED = False
HAS_FILES = True

_LOADED = ("/sys/module/ib_core",)
_LACK = "no RDMA core is loaded here"
_INITRAMFS = (
    "if the initramfs loads ib_core, write it anew (update-initramfs -u, or dracut -f), or the option comes late"
)


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the mode and the names, each for now and for the next boot."""
    mode = node.common.rdma_mode
    why = "a pod sees its own RDMA devices only" if mode == "exclusive" else "pods share the ports' RDMA devices"
    option = f"{HEAD}options ib_core netns_mode={0 if mode == 'exclusive' else 1}\n"
    modprobe = file.Want(file.RDMA_MODPROBE, option, _LOADED, _LACK, note=_INITRAMFS)
    yield Setting(STEP, modprobe, None, f"{why}, after a reboot, too")
    yield Setting(STEP, rdma_namespaces.Want(mode), None, why)
    if rules := "".join(_render_rules(node, port) for port in node.ports if port.pci):
        reason = "RDMA devices keep their rails' names after a reboot"
        yield Setting(STEP, file.Want(file.RDMA_RULES, HEAD + rules, _LOADED, _LACK), None, reason)
    for port in node.ports:
        want = rdma_name.Want(port.netdev, _find_name(node, port))
        yield Setting(STEP, want, port.rail, f"rail {port.rail} has one name on every host")


def _render_rules(node: NodePlan, port: PortPlan) -> str:
    """Two lines: hardware by its PCI address; soft-RoCE, which has none, by the interface that it rides on.

    rdma_rename is rdma-core's own helper; NAME_FIXED takes the name given (kernel-boot/rdma_rename.c). `parent` is an
    attribute of rdma_rxe and siw (drivers/infiniband/sw/rxe/rxe_verbs.c).
    """
    matches = (f'KERNELS=="{port.pci}"', f'ATTR{{parent}}=="{port.netdev}"')
    name = f'PROGRAM="rdma_rename %k NAME_FIXED {_find_name(node, port)}"'
    return "".join(f'ACTION=="add", SUBSYSTEM=="infiniband", {match}, {name}\n' for match in matches)


def _find_name(node: NodePlan, port: PortPlan) -> str:
    return next(rail.rdma for rail in node.common.rails if rail.rail == port.rail)
