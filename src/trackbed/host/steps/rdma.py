"""Step rdma: RDMA devices have the name of their rail, and the planned namespace mode.

    exclusive   a pod sees only the RDMA devices that were moved into it (VFs, whole ports)
    shared      all namespaces see all devices (macvlan over a shared port)

The mode (rdma-system(8)) is a parameter of ib_core, set for the next boot in modprobe.d(5), and on the kernel's command
line where the initramfs loads ib_core: it has its own copy of modprobe.d, or none. A udev rule sets the names
(rdma-dev(8)); it precedes rdma-core's 60-rdma-persistent-naming, and only the first rename takes effect. Without the
mode, pods lose their devices; without names, NCCL's list of HCAs differs between hosts.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import file, kernel_arguments, rdma_name, rdma_namespaces
from trackbed.host.setting import HEAD, Setting

STEP = "rdma"
HAS_FILES = True

_SKIP = 'SUBSYSTEM=="infiniband", KERNELS=="*.sf.[0-9]*", GOTO="trackbed_end"\n'
"""A subfunction shares its port's PCI address (mlx5_core.sf.4; drivers/net/ethernet/mellanox/mlx5/core/sf/dev)."""
_END = 'LABEL="trackbed_end"\n'
_LOADED = ("/sys/module/ib_core",)
_LACK = "no RDMA core is loaded here"
_OPERATOR = "the SR-IOV operator reboots this host until its kernel line names the RDMA mode"


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the namespace mode and the device names, each for the running kernel and for the next boot."""
    mode = node.common.rdma_mode
    why = "a pod sees its own RDMA devices only" if mode == "exclusive" else "pods share the ports' RDMA devices"
    option, ends_sharing = f"netns_mode={rdma_namespaces.OPTIONS[mode]}", mode == "exclusive"
    content = f"{HEAD}options ib_core {option}\n"
    modprobe = file.Want(file.RDMA_MODPROBE, content, _LOADED, _LACK, ends_sharing=ends_sharing)
    yield Setting(STEP, modprobe, None, f"{why}, after a reboot, too")
    always = node.common.rdma_mode_on_cmdline
    early = kernel_arguments.EarlyWant(f"ib_core.{option}", ends_sharing, always)
    yield Setting(STEP, early, None, _OPERATOR if always else "an initramfs with RDMA reads no modprobe.d of this host")
    yield Setting(STEP, rdma_namespaces.Want(mode), None, why)
    if rules := "".join(_render_rules(node, port) for port in node.ports if port.pci):
        reason = "RDMA devices keep their rails' names after a reboot"
        yield Setting(STEP, file.Want(file.RDMA_RULES, f"{HEAD}{_SKIP}{rules}{_END}", _LOADED, _LACK), None, reason)
    for port in node.ports:
        want = rdma_name.Want(port.netdev, _get_interface_name(node, port))
        yield Setting(STEP, want, port.rail, f"rail {port.rail} has one name on every host")


def _render_rules(node: NodePlan, port: PortPlan) -> str:
    """Render two rules: one for hardware by its PCI address, one for software devices by their interface.

    rdma_rename is a helper of rdma-core; NAME_FIXED sets the given name (kernel-boot/rdma_rename.c). `parent` is an
    attribute of rdma_rxe and siw (drivers/infiniband/sw/rxe/rxe_verbs.c).
    """
    matches = (f'KERNELS=="{port.pci}"', f'ATTR{{parent}}=="{port.netdev}"')
    name = f'PROGRAM="rdma_rename %k NAME_FIXED {_get_interface_name(node, port)}"'
    return "".join(f'ACTION=="add", SUBSYSTEM=="infiniband", {match}, {name}\n' for match in matches)


def _get_interface_name(node: NodePlan, port: PortPlan) -> str:
    return next(rail.rdma for rail in node.common.rails if rail.rail == port.rail)
