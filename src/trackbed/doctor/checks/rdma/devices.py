"""Each port has one RDMA device, with the device nodes that programs open; no device is lost in a namespace."""

from collections.abc import Iterator, Mapping

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.rdma.stack import CLASSES, NODES, RDMA_DRIVERS
from trackbed.doctor.checks.vfs import owners
from trackbed.doctor.checks.vfs.functions import get_device_folder, iter_vfs
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import SysfsRdmaDevice, list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_VERBS = "/sys/class/infiniband_verbs/uverbs*/ibdev"
_MAD = "/sys/class/infiniband_mad/umad*/ibdev"

READS = Wanted(files=(_VERBS, _MAD))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port with RDMA hardware, and if any port uses soft-RoCE, every port."""
    if "infiniband" not in host.folders.get(CLASSES, ()):
        return
    has_soft = any(device.is_soft for port in view.iter_ports() for device in list_rdma_devices(host, port.netdev))
    for port in view.iter_ports():
        if view.find_link(port) is None:
            continue  # step names reports the missing interface
        devices = list_rdma_devices(host, port.netdev)
        driver = host.get_target(f"{get_device_folder(port.netdev)}/driver")
        if devices or has_soft or driver in RDMA_DRIVERS:
            yield check_device_count(view, port, devices, driver)
        yield from check_device_nodes(view, host, port, devices)
        yield from check_lost_devices(view, host, port)


def check_device_count(
    view: NodeView, port: PortPlan, devices: tuple[SysfsRdmaDevice, ...], driver: str | None
) -> Finding:
    """Check that the port has exactly one RDMA device."""
    names = ", ".join(device.name for device in devices) or "none"
    evidence = f"{port.netdev} (driver {driver or 'none'}) has RDMA devices: {names}"
    return build_finding("rdma-device-missing-for-port", view.node, port, ok=len(devices) == 1, evidence=evidence)


def check_device_nodes(
    view: NodeView, host: Snapshot, port: PortPlan, devices: tuple[SysfsRdmaDevice, ...]
) -> Iterator[Finding]:
    """Check the device nodes for verbs and for management datagrams; soft-RoCE does not need the latter."""
    hardware = tuple(device for device in devices if not device.is_soft)
    for fault_id, pattern, checked in (
        ("rdma-uverbs-node-missing", _VERBS, devices),
        ("rdma-umad-node-missing", _MAD, hardware),
    ):
        names, present = _map_device_nodes(host, pattern), host.folders.get(NODES, ())
        missing = [
            f"{device.name}: {names.get(device.name, 'no node')}"
            for device in checked
            if names.get(device.name) not in present
        ]
        if checked:
            listing = summarize_items([names[device.name] for device in checked if device.name in names])
            evidence = f"not in {NODES}: {summarize_items(missing)}" if missing else listing
            yield build_finding(fault_id, view.node, port, ok=not missing, evidence=evidence)


def _map_device_nodes(host: Snapshot, pattern: str) -> Mapping[str, str]:
    """Return RDMA device -> name of its device node."""
    return {device: path.split("/")[-2] for path in host.glob(pattern) if (device := host.read_text(path)) is not None}


def check_lost_devices(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that every VF's RDMA device is on the host or in a pod.

    In exclusive mode a device moves into the pod's namespace, and returns when that namespace ends.
    """
    vfs = [vf for vf in iter_vfs(host, port.netdev) if vf.driver in RDMA_DRIVERS]
    if view.node.common.rdma_mode != "exclusive" or not vfs:
        return
    away = [vf.pci for vf in vfs if not vf.rdma_devices]
    lost, doubt = owners.find_lost_functions(view, host, away)
    has_interface = any(vf.netdevs for vf in vfs if vf.pci in lost)  # a pod would have that, too
    if lost and doubt and not (has_interface and owners.CHECKPOINT in host.files):
        evidence = f"not on the host: devices of {summarize_items(lost)}; {doubt}"
        yield build_finding("rdma-device-lost-in-namespace", view.node, port, ok=None, evidence=evidence)
        return
    evidence = f"in pods: {summarize_items(away) or 'none'}"
    evidence = f"not on the host and in no pod: devices of {summarize_items(lost)}" if lost else evidence
    yield build_finding("rdma-device-lost-in-namespace", view.node, port, ok=not lost, evidence=evidence)
