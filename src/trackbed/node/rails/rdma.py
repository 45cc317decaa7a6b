"""The RDMA device of each rail of a pod: which one it is, how it gets there, how it comes back.

    stays     the namespaces share all devices (rdma system set netns shared): the pod is given its file, no more
    moves     a device of hardware follows its interface (exclusive mode); the kernel takes programs off it meanwhile
    made      a VF of a port with soft-RoCE: made in the pod, where alone it listens; gone with the interface
    remade    soft-RoCE of a port that moves itself: made in the pod, and again on the node once the port is back

Soft-RoCE cannot leave the first namespace in exclusive mode (rxe: EOPNOTSUPP): a rail has no RDMA device in a pod then.
Names of RDMA devices are unique on a host across namespaces, so one that is made for a VF carries rail and VF.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from trackbed.fabric.plan.plan import CommonPlan, PortPlan
from trackbed.kernel.netlink import rdma
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, RequestError, Socket
from trackbed.node.rails import batch, hardware
from trackbed.node.rails.attachment import PodPort, Rdma
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError

_log = logging.getLogger(__name__)


def find_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """That of a port which stays on the node, as pods on it see it."""
    found = hardware.read_rdma_device(hardware.locate_port(port.netdev, sysfs)) or hardware.find_soft_rdma_device(
        port.netdev, sysfs
    )
    return Rdma(found, "stays") if found and _shared(common) else None


def find_moved_port_device(port: PortPlan, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """That of a port which moves into a pod itself."""
    own = hardware.read_rdma_device(hardware.locate_port(port.netdev, sysfs))
    if own:
        return _of_hardware(own, common)
    soft = hardware.find_soft_rdma_device(port.netdev, sysfs)
    return Rdma(soft, "remade") if soft and _shared(common) else None


def find_vf_device(port: PortPlan, vf: int, common: CommonPlan, sysfs: Path = hardware.SYSFS) -> Rdma | None:
    """That of a VF: its own; a soft one where the port's own is soft."""
    own = hardware.read_rdma_device(hardware.locate_vf(port.netdev, vf, sysfs))
    if own:
        return _of_hardware(own, common)
    soft = hardware.find_soft_rdma_device(port.netdev, sysfs)
    return Rdma(f"{common.rails[port.rail].netdev}v{vf}", "made") if soft and _shared(common) else None


def _shared(common: CommonPlan) -> bool:
    return common.rdma_mode == "shared"


def _of_hardware(name: str, common: CommonPlan) -> Rdma:
    return Rdma(name, "stays" if _shared(common) else "moves")


def move_into_pod(ports: Iterable[PodPort], inside: int) -> None:
    """Bring the devices of ports into the namespace `inside`, where their interfaces are. StepsRefusedError."""
    there = list(ports)
    if any(_how(port) == "moves" for port in there):
        with Socket(NETLINK_RDMA) as host:
            batch.send_steps(host, _moves(host, there, inside, "into the pod"))
    if any(_how(port) in {"made", "remade"} for port in there):
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            batch.send_steps(
                sock, _makes(sock, ((port, port.name) for port in there if _how(port) in {"made", "remade"}))
            )


def move_to_host(ports: Iterable[PodPort], inside: int, home: int) -> None:
    """Bring what moved back before its interface follows; what was made goes with its interface. StepsRefusedError."""
    there = list(ports)
    if any(_how(port) == "moves" for port in there):
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            batch.send_steps(sock, _moves(sock, there, home, "back"))


def recreate(ports: Iterable[PodPort]) -> None:
    """Make soft devices again on ports that are back. A node without one must not keep a pod from ending: logged."""
    wanted = [(port, port.host.name) for port in ports if port.host and _how(port) == "remade"]
    if not wanted:
        return
    try:
        with Socket(NETLINK_RDMA) as host:
            batch.send_steps(host, _makes(host, wanted))
    except (StepsRefusedError, NetlinkError, OSError) as error:
        _log.warning("soft-RoCE could not be made again: %s", error)


def list_verbs_devices(ports: Iterable[PodPort], inside: int) -> dict[str, rdma.VerbsDevice]:
    """By device, the files by which programs in the namespace `inside` use them; one that has none is left out."""
    names = {port.rdma.name for port in ports if port.rdma}
    found = {}
    if names:
        with Socket(NETLINK_RDMA, netns=inside) as sock:
            for one in rdma.list_devices(sock):
                if one.name in names:
                    with suppress(RequestError):
                        found[one.name] = rdma.get_verbs(sock, one)
    return found


def _how(port: PodPort) -> str:
    return port.rdma.how if port.rdma else ""


def _moves(sock: Socket, ports: Iterable[PodPort], to: int, where: str) -> Iterator[NetlinkStep]:
    """Of those that are here; one that is not was moved before, or came back by itself when its namespace ended."""
    here = {one.name: one.index for one in rdma.list_devices(sock)}
    for port in ports:
        if port.rdma and port.rdma.how == "moves" and port.rdma.name in here:
            message = rdma.move_device(here[port.rdma.name], to)
            yield NetlinkStep(port.rail, f"move RDMA device {port.rdma.name} {where}", message)


def _makes(sock: Socket, wanted: Iterable[tuple[PodPort, str]]) -> Iterator[NetlinkStep]:
    here = {one.name for one in rdma.list_devices(sock)}
    for port, netdev in wanted:
        if port.rdma and port.rdma.name not in here:
            message = rdma.create_link(port.rdma.name, netdev)
            yield NetlinkStep(port.rail, f"make RDMA device {port.rdma.name} on {netdev}", message)
