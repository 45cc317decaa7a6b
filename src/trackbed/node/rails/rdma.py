"""The RDMA device of each rail of a pod: its selection, and its move into the pod and back.

    stays     the namespaces share all devices (rdma system set netns shared): the pod only gets the device file
    moves     a hardware device follows its interface (exclusive mode); the kernel disassociates running programs
    made      a VF of a port with soft-RoCE: created in the pod, deleted with the interface
    remade    soft-RoCE of a port that moves itself: created in the pod, and again on the host once the port is back

Soft-RoCE cannot leave the initial namespace in exclusive mode (rxe: EOPNOTSUPP), so a rail then has no RDMA device in
a pod. A hardware device is found by the PCI function of its port or VF, and recognized in a pod by its node GUID: its
name may be another one there. Names of RDMA devices are unique on a host across namespaces today, so a device that is
made for a VF is named by rail and VF.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from trackbed.fabric.plan.plan import CommonPlan, PortPlan
from trackbed.kernel.netlink import rdma
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, RequestError, Socket
from trackbed.node.rails import hardware
from trackbed.node.rails.attachment import PodPort, Rdma
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps

_log = logging.getLogger(__name__)

DEVICES = "/dev/infiniband"
RDMA_CM = Path(DEVICES, "rdma_cm")


def find_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device that pods get on a port that stays on the host; None if they get none."""
    name = hardware.read_rdma_device_name(hardware.locate_port(port.netdev, sysfs))
    name = name or hardware.find_soft_rdma_device_name(port.netdev, sysfs)
    return Rdma(name, "stays") if name and _is_shared(common) else None


def list_shared_device_files(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> tuple[str, ...]:
    """Return the device files that all pods on a port share; empty unless pods are on it by macvlan.

    They are known before a pod's network is set up. Of a device that moves they are not: the kernel gives it another
    number in the pod (rdma_dev_change_netns in drivers/infiniband/core/device.c, ib_uverbs_add_one).
    """
    device = find_port_device(port, common, sysfs) if common.pod_mode == "macvlan" else None
    verbs = hardware.find_verbs_device_name(device.name, sysfs) if device else None
    if verbs is None:
        return ()
    return (f"{DEVICES}/{verbs}", *([str(RDMA_CM)] if RDMA_CM.exists() else ()))


def find_moved_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device of a port that moves into a pod; None if the pod gets none."""
    folder = hardware.locate_port(port.netdev, sysfs)
    if hardware.read_rdma_device_name(folder):
        return _build_hardware_device(folder, common)
    soft = hardware.find_soft_rdma_device_name(port.netdev, sysfs)
    return Rdma(soft, "remade") if soft and _is_shared(common) else None


def find_vf_device(port: PortPlan, vf: int, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device that a pod gets with a VF; None if it gets none.

    It is the hardware device of the VF, or a soft-RoCE device if the port has one.
    """
    folder = hardware.locate_vf(port.netdev, vf, sysfs)
    if hardware.read_rdma_device_name(folder):
        return _build_hardware_device(folder, common)
    soft = hardware.find_soft_rdma_device_name(port.netdev, sysfs)
    return Rdma(f"{common.rails[port.rail].netdev}v{vf}", "made") if soft and _is_shared(common) else None


def _is_shared(common: CommonPlan) -> bool:
    return common.rdma_mode == "shared"


def _build_hardware_device(folder: Path, common: CommonPlan) -> Rdma:
    name = hardware.read_rdma_device_name(folder) or ""
    return Rdma(name, "stays" if _is_shared(common) else "moves", hardware.read_node_guid(folder))


def note_indexes(ports: tuple[PodPort, ...]) -> tuple[PodPort, ...]:
    """Return ports that are on the host with the kernel's indexes of the hardware devices that move with them.

    A pod can create software devices with any name, and with a GUID that follows from a MAC. It chooses no index:
    assign_name() of drivers/infiniband/core/device.c does, and a device keeps it in any namespace.
    """
    if not _filter_by_method(ports, "moves"):
        return ports
    try:
        with Socket(NETLINK_RDMA) as host:
            devices = rdma.list_devices(host)
    except (NetlinkError, OSError) as error:
        _log.warning("RDMA devices cannot be listed: %s", error)
        return ports
    return tuple(_note_index(port, devices) for port in ports)


def _note_index(port: PodPort, devices: Iterable[rdma.RdmaDevice]) -> PodPort:
    device = find_device(devices, port.rdma) if port.rdma and port.rdma.how == "moves" else None
    if port.rdma is None or device is None:
        return port
    return msgspec.structs.replace(port, rdma=msgspec.structs.replace(port.rdma, index=device.index))


def find_device(devices: Iterable[rdma.RdmaDevice], wanted: Rdma) -> rdma.RdmaDevice | None:
    """Return a device of a namespace by its index, by its node GUID if that is unknown, or else by its name."""
    if wanted.index >= 0:
        return next((device for device in devices if device.index == wanted.index), None)
    if wanted.node_guid:
        return next((device for device in devices if device.node_guid == wanted.node_guid), None)
    return next((device for device in devices if device.name == wanted.name), None)


def move_devices_into_pod(ports: Iterable[PodPort], pod_netns_fd: int) -> None:
    """Move or create the RDMA devices of ports in the namespace `pod_netns_fd`, after their interfaces.

    Raises:
        StepsRefusedError: the kernel refused a device.
    """
    moving, created = _filter_by_method(ports, "moves"), _filter_by_method(ports, "made", "remade")
    if moving:
        with Socket(NETLINK_RDMA) as host:
            send_steps(host, _iter_move_steps(host, moving, pod_netns_fd, "into the pod"))
    if created:
        with Socket(NETLINK_RDMA, netns=pod_netns_fd) as sock:
            send_steps(sock, _iter_creation_steps(sock, ((port, port.name) for port in created)))


def move_devices_to_host(ports: Iterable[PodPort], pod_netns_fd: int, host_netns_fd: int) -> None:
    """Move RDMA devices to the host before their interfaces. Created devices are deleted with their interfaces.

    Raises:
        StepsRefusedError: the kernel refused a device.
    """
    if moving := _filter_by_method(ports, "moves"):
        with Socket(NETLINK_RDMA, netns=pod_netns_fd) as sock:
            send_steps(sock, _iter_move_steps(sock, moving, host_netns_fd, "back"))


def restore_names(ports: Iterable[PodPort]) -> list[PodPort]:
    """Give returned hardware devices the names that they had on the host; return the ports without theirs.

    A pod can hide a device in another namespace than its interface, or give its name to a soft one, until it ends.
    """
    moved = _filter_by_method(ports, "moves")
    if not moved:
        return []
    try:
        with Socket(NETLINK_RDMA) as host:
            devices = rdma.list_devices(host)
            return [port for port in moved if port.rdma and not _restore_name(host, devices, port.rail, port.rdma)]
    except (NetlinkError, OSError) as error:
        _log.warning("RDMA devices have not all their names back: %s", error)
        return []


def _restore_name(host: Socket, devices: Iterable[rdma.RdmaDevice], rail: int, wanted: Rdma) -> bool:
    """Return whether a device has its name, or one that a driver created anew has it."""
    device = find_device(devices, wanted)
    if device is None or device.name == wanted.name:
        return any(present.name == wanted.name for present in devices)
    message = rdma.build_rename_device(device.index, wanted.name)
    try:
        send_steps(host, [NetlinkStep(rail, f"rename RDMA device {device.name}", message)])
    except StepsRefusedError as error:
        _log.warning("%s; trying again later", error)
        return False
    return True


def recreate_soft_devices(ports: Iterable[PodPort]) -> None:
    """Create the soft-RoCE devices of returned ports on the host. A failure is only logged, so that DEL succeeds."""
    netdevs = [(port, port.host.name) for port in _filter_by_method(ports, "remade") if port.host]
    if not netdevs:
        return
    try:
        with Socket(NETLINK_RDMA) as host:
            send_steps(host, _iter_creation_steps(host, netdevs))
    except (StepsRefusedError, NetlinkError, OSError) as error:
        _log.warning("soft-RoCE could not be made again: %s", error)


def map_verbs_devices(ports: Iterable[PodPort], pod_netns_fd: int) -> dict[str, rdma.VerbsDevice]:
    """Return the verbs devices of the ports in the namespace `pod_netns_fd`, by RDMA device name.

    Devices without a verbs device are left out.
    """
    wanted = [port.rdma for port in ports if port.rdma]
    verbs = {}
    if wanted:
        with Socket(NETLINK_RDMA, netns=pod_netns_fd) as sock:
            devices = rdma.list_devices(sock)
            for device in wanted:
                if present := find_device(devices, device):
                    with suppress(RequestError):
                        verbs[device.name] = rdma.get_verbs(sock, present)
    return verbs


def _filter_by_method(ports: Iterable[PodPort], *methods: str) -> list[PodPort]:
    """Return the ports whose RDMA device gets into the pod by one of these methods (`Rdma.how`)."""
    return [port for port in ports if port.rdma and port.rdma.how in methods]


def _iter_move_steps(sock: Socket, ports: list[PodPort], netns_fd: int, destination: str) -> Iterator[NetlinkStep]:
    """Yield the steps that move existing devices. The others have moved already, or returned with their namespace."""
    devices = rdma.list_devices(sock)
    for port in ports:
        device = find_device(devices, port.rdma) if port.rdma else None
        if device:
            message = rdma.build_move_device(device.index, netns_fd)
            yield NetlinkStep(port.rail, f"move RDMA device {device.name} {destination}", message)


def _iter_creation_steps(sock: Socket, netdevs: Iterable[tuple[PodPort, str]]) -> Iterator[NetlinkStep]:
    """Yield the steps that create missing devices, for pairs of a port and the name of its interface."""
    names = {device.name for device in rdma.list_devices(sock)}
    for port, netdev in netdevs:
        if port.rdma and port.rdma.name not in names:
            message = rdma.build_create_link(port.rdma.name, netdev)
            yield NetlinkStep(port.rail, f"make RDMA device {port.rdma.name} on {netdev}", message)
