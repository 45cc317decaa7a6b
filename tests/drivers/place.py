"""A host that has NICs of a model and systemd, and the plan of a node for it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.drivers.conftest import PCI
from tests.drivers.hardware import Hardware
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, fabric_plan, node_plan
from tests.host.trees import Scripted, grow
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.boot_id import BOOT_ID, read_boot_id
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyResult, apply
from trackbed.kernel.netlink import dcb, vfs
from trackbed.kernel.netlink.codec import NetlinkError

PORTS = f'[{{pci: "{PCI[0]}", netdev: eth0}}, {{pci: "{PCI[1]}", netdev: eth1}}]'
SPEC = "  names: {netdev: keep}\n  vfs: {count: 2}\n  rdma: {namespaceMode: exclusive}\n"


def plan(spec: str = "", addressing: str = P2P) -> NodePlan:
    """Return the plan: two rails, two VFs each, RDMA devices in one namespace at a time."""
    return node_plan(addressing, PORTS, spec=SPEC + spec)


NODE_NAME = "gpu-1"


def whole_plan(spec: str = "", addressing: str = P2P) -> Plan:
    """Return the plan of all nodes."""
    return fabric_plan(addressing, PORTS, spec=SPEC + spec)


def furnish(place: Host) -> Host:
    """Give a host systemd, and the boot id by which its RDMA core is known to be this kernel's."""
    root = place.machine.root
    grow(root, {BOOT_ID: f"{read_boot_id()}\n", "/usr/lib/systemd/system/multi-user.target": ""})
    (root / "run/systemd/system").mkdir(parents=True)
    return Host(replace(place.machine, runner=Scripted({"systemctl": lambda _: None})), place.far)


def settings(spec: str = "") -> tuple[Setting, ...]:
    """Return what the plan wants."""
    return iter_settings(plan(spec))


def apply_plan(place: Host, spec: str = "") -> ApplyResult:
    """Apply the plan."""
    return apply(place.machine, settings(spec), place.records)


class PortState(NamedTuple):
    """What a user reads of a port: DCB (None: the driver has none), VFs."""

    apps: frozenset[dcb.App]
    ets: dcb.Ets | None
    pfc: frozenset[int]
    vfs: tuple[vfs.Vf, ...]


def read_state(place: Host, hardware: Hardware) -> tuple[list[PortState], list[str], list[int]]:
    """Read both ports, and name and ToS of each RDMA device."""
    with place.machine.open_socket() as sock:
        ports = []
        for netdev in ("eth0", "eth1"):
            try:
                bridge = dcb.get_dcb(sock, netdev)
            except NetlinkError:
                bridge = dcb.Dcb(None, None, (), None, None)
            pfc = bridge.pfc.priorities if bridge.pfc else frozenset()
            ports.append(PortState(frozenset(bridge.apps), bridge.ets, pfc, vfs.get_vfs(sock, netdev).vfs))
    devices = sorted(hardware.rdma.devices, key=lambda device: device.pci)
    return ports, [device.name for device in devices], [device.tos for device in devices]


def read_interface_mac(place: Host, rail: int, vf: int) -> str:
    """Return the address of a VF's interface."""
    (net,) = (place.machine.root / f"sys/class/net/eth{rail}/device/virtfn{vf}/net").iterdir()
    return (net / "address").read_text().strip()
