"""The RDMA device of each rail of a pod: its selection, and its way into the pod and back.

    stays     the namespaces share all devices (rdma system set netns shared): the pod only gets the device file
    moves     a hardware device follows its interface (exclusive mode); the kernel disassociates running programs
    made      a VF of a port with soft-RoCE: created in the pod, deleted with the interface
    remade    soft-RoCE of a port that moves itself: created in the pod, and again on the host once the port is back

Soft-RoCE cannot leave the first namespace in exclusive mode (rxe: EOPNOTSUPP), so a rail has no RDMA device in a pod
then. Names of RDMA devices are unique on a host across namespaces, so a device for a VF is named by rail and VF.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from trackbed.fabric.plan.plan import CommonPlan, PortPlan
from trackbed.kernel.netlink import rdma
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, RequestError, Socket
from trackbed.node.rails import hardware
from trackbed.node.rails.attachment import PodPort, Rdma
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps

_log = logging.getLogger(__name__)


def find_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device of a port that stays on the host, for pods on it."""
    name = hardware.read_rdma_device(hardware.locate_port(port.netdev, sysfs))
    name = name or hardware.find_soft_rdma_device(port.netdev, sysfs)
    return Rdma(name, "stays") if name and _is_shared(common) else None


def find_moved_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device of a port that moves into a pod itself."""
    name = hardware.read_rdma_device(hardware.locate_port(port.netdev, sysfs))
    if name:
        return _to_hardware_device(name, common)
    soft = hardware.find_soft_rdma_device(port.netdev, sysfs)
    return Rdma(soft, "remade") if soft and _is_shared(common) else None


def find_vf_device(port: PortPlan, vf: int, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """Return the RDMA device of a VF: its hardware device, or a soft one where the port has a soft one."""
    name = hardware.read_rdma_device(hardware.locate_vf(port.netdev, vf, sysfs))
    if name:
        return _to_hardware_device(name, common)
    soft = hardware.find_soft_rdma_device(port.netdev, sysfs)
    return Rdma(f"{common.rails[port.rail].netdev}v{vf}", "made") if soft and _is_shared(common) else None


def _is_shared(common: CommonPlan) -> bool:
    return common.rdma_mode == "shared"


def _to_hardware_device(name: str, common: CommonPlan) -> Rdma:
    return Rdma(name, "stays" if _is_shared(common) else "moves")


def move_into_pod(ports: Iterable[PodPort], inside: int) -> None:
    """Move or create the RDMA devices of ports in the namespace `inside`, after their interfaces.

    Raises:
        StepsRefusedError: the kernel refused a device.
    """
    moving, created = _select(ports, "moves"), _select(ports, "made", "remade")
    if moving:
        with Socket(NETLINK_RDMA) as host:
            send_steps(host, _move_devices(host, moving, inside, "into the pod"))
    if created:
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            send_steps(sock, _create_devices(sock, ((port, port.name) for port in created)))


def move_to_host(ports: Iterable[PodPort], inside: int, host_netns: int) -> None:
    """Move RDMA devices to the host before their interfaces. Created devices are deleted with their interfaces.

    Raises:
        StepsRefusedError: the kernel refused a device.
    """
    if moving := _select(ports, "moves"):
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            send_steps(sock, _move_devices(sock, moving, host_netns, "back"))


def recreate(ports: Iterable[PodPort]) -> None:
    """Create the soft devices of returned ports on the host. A failure is logged: the pod must be able to end."""
    netdevs = [(port, port.host.name) for port in _select(ports, "remade") if port.host]
    if not netdevs:
        return
    try:
        with Socket(NETLINK_RDMA) as host:
            send_steps(host, _create_devices(host, netdevs))
    except (StepsRefusedError, NetlinkError, OSError) as error:
        _log.warning("soft-RoCE could not be made again: %s", error)


def list_verbs_devices(ports: Iterable[PodPort], inside: int) -> dict[str, rdma.VerbsDevice]:
    """Return the verbs devices of the ports in the namespace `inside`, by RDMA device name.

    Devices without a verbs device are left out.
    """
    names = {port.rdma.name for port in ports if port.rdma}
    verbs = {}
    if names:
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            for device in rdma.list_devices(sock):
                if device.name in names:
                    with suppress(RequestError):
                        verbs[device.name] = rdma.get_verbs(sock, device)
    return verbs


def _select(ports: Iterable[PodPort], *methods: str) -> list[PodPort]:
    return [port for port in ports if port.rdma and port.rdma.how in methods]


def _move_devices(sock: Socket, ports: list[PodPort], netns: int, destination: str) -> Iterator[NetlinkStep]:
    """Yield the moves of devices that are present; the others have moved before or returned with their namespace."""
    indexes = {device.name: device.index for device in rdma.list_devices(sock)}
    for port in ports:
        if port.rdma and port.rdma.name in indexes:
            message = rdma.move_device(indexes[port.rdma.name], netns)
            yield NetlinkStep(port.rail, f"move RDMA device {port.rdma.name} {destination}", message)


def _create_devices(sock: Socket, netdevs: Iterable[tuple[PodPort, str]]) -> Iterator[NetlinkStep]:
    """Yield the creations of devices that do not exist yet, from ports and the names of their interfaces."""
    names = {device.name for device in rdma.list_devices(sock)}
    for port, netdev in netdevs:
        if port.rdma and port.rdma.name not in names:
            message = rdma.create_link(port.rdma.name, netdev)
            yield NetlinkStep(port.rail, f"make RDMA device {port.rdma.name} on {netdev}", message)
