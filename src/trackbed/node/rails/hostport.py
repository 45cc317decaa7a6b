"""The host's state of a port or VF: read before it moves into a pod, restored when it is back.

The kernel drops addresses, routes and sysctls of a device that leaves a namespace. It keeps routing rules.
"""

import errno
import logging
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackbed.kernel.netlink import addresses, links, routes
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import hardware, pod
from trackbed.node.rails.attachment import PORT_ITSELF, HostAddress, HostPort, HostRoute, PodPort
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps

_log = logging.getLogger(__name__)

_CONF = ("arp_announce", "arp_filter", "arp_ignore", "forwarding", "rp_filter")
_CONF6 = ("accept_ra", "keep_addr_on_down")
_KEPT_FLAGS = addresses.IFA_F_NODAD | addresses.IFA_F_NOPREFIXROUTE
RETURN_SECONDS = 2.0
"""Time for the kernel to return the devices of a namespace that has ended."""
_POLL_SECONDS = 0.05


def read_host_ports(host: Socket, ports: Iterable[links.Link]) -> list[HostPort]:
    """Return the state of each device. Unfiltered listings would be slow on a node with many pods."""
    return [_read_host_port(host, link) for link in ports]


def _read_host_port(host: Socket, link: links.Link) -> HostPort:
    return HostPort(
        name=link.name,
        ifindex=link.index,
        mtu_bytes=link.mtu,
        up=link.up,
        conf=pod.read_ipv4_conf(link.name, _CONF),
        addresses=tuple(
            HostAddress(address.family, address.address, address.prefix, address.scope, address.flags & _KEPT_FLAGS)
            for address in addresses.list_addresses(host, index=link.index)
            if _is_configured(address)
        ),
        routes=tuple(_to_host_routes(routes.list_routes(host, oif=link.index))),
        conf6=_read_conf6(link.name),
    )


def restore_host_ports(host: Socket, ports: Iterable[PodPort], sysfs: Path, timeout_seconds: float) -> list[PodPort]:
    """Restore the state of each port; return the ports that have not returned within the timeout.

    A route that the kernel refuses is logged: it must not keep a pod from ending.
    """
    steps: list[NetlinkStep] = []
    missing: list[PodPort] = []
    deadline = time.monotonic() + timeout_seconds
    for port in ports:
        if port.host is None:
            continue
        try:
            index = _restore_name(host, port, port.host, sysfs, deadline)
            _write_conf6(port.host)
        except (OSError, NetlinkError) as error:
            level = logging.WARNING if timeout_seconds else logging.DEBUG
            _log.log(level, "rail %d: %s is not restored yet, trying again later: %s", port.rail, port.host.name, error)
            missing.append(port)
            continue
        steps += _build_steps(port, port.host, index)
    try:
        send_steps(host, sorted(steps, key=lambda step: step.action.startswith("add route via")))
    except StepsRefusedError as error:
        _log.warning("the host's state was not restored completely: %s; run `trackbed apply`", error)
    return missing


def _restore_name(host: Socket, port: PodPort, state: HostPort, sysfs: Path, deadline: float) -> int:
    """Wait until a port is back, restore its name, and return its index.

    When a namespace ends, the kernel returns its devices with a delay, and renames a device whose name is taken (dev7).
    Then udev reserves the device's usual name as an alternative name.

    Raises:
        OSError, NetlinkError: the port was not back at the deadline.
    """
    while True:
        try:
            link = _find_link(host, port, state, sysfs)
            if link.name != state.name:
                _rename(host, link, state.name)
        except (OSError, NetlinkError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return link.index


def _find_link(host: Socket, port: PodPort, state: HostPort, sysfs: Path) -> links.Link:
    """Find a port by its name or MAC address, a VF by its number. Raises OSError, NetlinkError where it is missing."""
    name: str | None = state.name
    if state.vf != PORT_ITSELF:
        name = hardware.read_interface(hardware.locate_vf(state.pf, state.vf, sysfs))
    if name is None:
        raise OSError(errno.ENODEV, "it has not come back from the pod")
    try:
        return links.get_link(host, name)
    except RequestError:
        for link in links.list_links(host) if state.vf == PORT_ITSELF else ():
            if link.mac == port.mac:
                return link
        raise


def _rename(host: Socket, link: links.Link, name: str) -> None:
    if name in link.altnames:
        host.send([links.delete_altname(link.index, name)])
    host.send([links.set_link(link.index, up=False)])
    host.send([links.set_link(link.index, name=name)])


def _read_conf6(name: str) -> dict[str, int]:
    """Return the IPv6 sysctls that the step `addresses` sets; they are read-only in netlink."""
    folder = Path("/proc/sys/net/ipv6/conf", name)
    return {key: int((folder / key).read_text()) for key in _CONF6 if (folder / key).exists()}


def _write_conf6(state: HostPort) -> None:
    for key, value in state.conf6.items():
        path = _find_writable_sysctls() / "ipv6/conf" / state.name / key
        if int(path.read_text()) != value:
            path.write_text(str(value))


def _find_writable_sysctls() -> Path:
    """Return the folder of the network sysctls. In a container /proc/sys is read-only and the host's is mounted."""
    mounted = Path("/host/proc/sys/net")
    return mounted if mounted.is_dir() else Path("/proc/sys/net")


def _build_steps(port: PodPort, state: HostPort, index: int) -> Iterator[NetlinkStep]:
    link = links.set_link(index, mtu=state.mtu_bytes, up=state.up, ipv4_conf=state.conf)
    yield NetlinkStep(port.rail, f"set up {state.name}", link)
    for address in state.addresses:
        message = addresses.replace_address(
            addresses.Address(index, address.family, address.address, address.prefix, address.scope, address.flags)
        )
        yield NetlinkStep(port.rail, f"add an address to {state.name}", message)
    for route in state.routes:
        action = "add route via" if route.gateway else "add route on"
        message = routes.replace_route(
            routes.Route(
                family=route.family,
                table=route.table,
                dst=route.dst,
                prefix=route.prefix,
                oif=index,
                gateway=route.gateway,
                prefsrc=route.prefsrc,
                protocol=route.protocol,
                scope=route.scope,
                metric=route.metric,
                onlink=route.onlink,
            )
        )
        yield NetlinkStep(port.rail, f"{action} {state.name}", message)


def _is_configured(address: addresses.Address) -> bool:
    """Return whether an address was configured. Router advertisements and the kernel restore the others themselves."""
    permanent = bool(address.flags & addresses.IFA_F_PERMANENT)
    return permanent and not (address.family == socket.AF_INET6 and address.scope == routes.RT_SCOPE_LINK)


def _to_host_routes(listing: Iterable[routes.Route]) -> Iterator[HostRoute]:
    """Return the configured unicast routes, without those that the kernel or router advertisements restore."""
    for route in listing:
        if route.protocol not in {routes.RTPROT_KERNEL, routes.RTPROT_RA} and route.type == routes.RTN_UNICAST:
            head = (route.family, route.table, route.dst, route.prefix, route.gateway, route.prefsrc)
            yield HostRoute(*head, route.protocol, route.scope, route.metric, route.onlink)
