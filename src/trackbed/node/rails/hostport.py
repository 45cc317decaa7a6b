"""What a port or a VF had on the host before it went into a pod: read before it goes, given back when it is home.

The kernel drops addresses, routes and sysctls of a device that leaves a namespace; rules stay where they are.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackbed.kernel.netlink import addresses, links, routes
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import batch, hardware, pod
from trackbed.node.rails.attachment import PORT_ITSELF, HostAddress, HostPort, HostRoute, Port
from trackbed.node.rails.batch import Step, StepsRefusedError

_log = logging.getLogger(__name__)

_CONF = ("arp_announce", "arp_filter", "arp_ignore", "forwarding", "rp_filter")
_CONF6 = ("accept_ra", "keep_addr_on_down")
_KEPT_FLAGS = addresses.IFA_F_NODAD | addresses.IFA_F_NOPREFIXROUTE
RETURN_SECONDS = 2.0
"""For the kernel to bring home what was in a namespace that has ended."""
_LOOK_SECONDS = 0.05


def read(host: Socket, found: Iterable[links.Link]) -> list[HostPort]:
    """What these devices have. Asked of each alone: a node with many pods has many addresses and routes besides."""
    return [_read(host, link) for link in found]


def _read(host: Socket, link: links.Link) -> HostPort:
    own, by = addresses.list_addresses(host, index=link.index), routes.list_routes(host, oif=link.index)
    return HostPort(
        name=link.name,
        ifindex=link.index,
        mtu_bytes=link.mtu,
        up=link.up,
        conf=pod.ipv4_conf(link.name, _CONF),
        addresses=tuple(_host_address(one) for one in own if _is_kept(one)),
        routes=tuple(_host_routes(by)),
        conf6=_conf6(link.name),
    )


def restore(host: Socket, ports: Iterable[Port], sysfs: Path, patience: float) -> list[Port]:
    """Set what the host had of each port; gives those that have not come home within `patience` seconds.

    A route the kernel no longer takes must not keep a pod from ending: it is logged.
    """
    steps: list[Step] = []
    away: list[Port] = []
    deadline = time.monotonic() + patience
    for port in ports:
        if port.host is None:
            continue
        try:
            index = _named(host, port, port.host, sysfs, deadline)
            _set_conf6(port.host)
        except (OSError, NetlinkError) as error:
            level = logging.WARNING if patience else logging.DEBUG
            _log.log(level, "rail %d: %s is not yet as it was, and is looked for: %s", port.rail, port.host.name, error)
            away.append(port)
            continue
        steps += _settings(port, port.host, index)
    try:
        batch.send(host, sorted(steps, key=lambda step: step.what.startswith("add route via")))
    except StepsRefusedError as error:
        _log.warning("not everything could be given back to the host: %s; run `trackbed apply`", error)
    return away


def _named(host: Socket, port: Port, was: HostPort, sysfs: Path, deadline: float) -> int:
    """The index of a port that has come home, by its own name again. OSError, NetlinkError: by the deadline it has not.

    When a namespace ends the kernel brings its devices home in its own time, and calls one dev7 whose name is taken;
    then udev makes the name it knows the device by one of its alternative names, which keeps anybody from taking it.
    """
    while True:
        try:
            link = _at_home(host, port, was, sysfs)
            if link.name != was.name:
                _rename(host, link, was.name)
        except (OSError, NetlinkError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return link.index


def _at_home(host: Socket, port: Port, was: HostPort, sysfs: Path) -> links.Link:
    """A port is known by its MAC address, a VF by its port and number. OSError, NetlinkError: it is not there."""
    name: str | None = was.name
    if was.vf != PORT_ITSELF:
        name = hardware.interface(hardware.vf(was.pf, was.vf, sysfs))
    if name is None:
        raise OSError(errno.ENODEV, "it has not come back from the pod")
    try:
        return links.get_link(host, name)
    except RequestError:
        own = [link for link in links.list_links(host) if link.mac == port.mac] if was.vf == PORT_ITSELF else []
        if not own:
            raise
        return own[0]


def _rename(host: Socket, link: links.Link, name: str) -> None:
    if name in link.altnames:
        host.send([links.delete_altname(link.index, name)])
    host.send([links.set_link(link.index, up=False)])
    host.send([links.set_link(link.index, name=name)])


def _conf6(name: str) -> dict[str, int]:
    """The port's IPv6 sysctls that the step addresses sets; netlink cannot (they are read-only there)."""
    folder = Path("/proc/sys/net/ipv6/conf", name)
    return {key: int((folder / key).read_text()) for key in _CONF6 if (folder / key).exists()}


def _set_conf6(was: HostPort) -> None:
    for key, value in was.conf6.items():
        place = _writable() / "ipv6/conf" / was.name / key
        if int(place.read_text()) != value:
            place.write_text(str(value))


def _writable() -> Path:
    """The sysctls of the network: in a container /proc/sys is read-only, and the host's folder lies elsewhere."""
    mounted = Path("/host/proc/sys/net")
    return mounted if mounted.is_dir() else Path("/proc/sys/net")


def _settings(port: Port, was: HostPort, index: int) -> Iterator[Step]:
    link = links.set_link(index, mtu=was.mtu_bytes, up=was.up, ipv4_conf=was.conf)
    yield Step(port.rail, f"set up {was.name}", link)
    for own in was.addresses:
        message = addresses.replace_address(
            addresses.Address(index, own.family, own.address, own.prefix, own.scope, own.flags)
        )
        yield Step(port.rail, f"add an address to {was.name}", message)
    for route in was.routes:
        via = "add route via" if route.gateway else "add route on"
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
        yield Step(port.rail, f"{via} {was.name}", message)


def _is_kept(own: addresses.Address) -> bool:
    """Addresses that somebody set; what router advertisements or the kernel itself made comes by itself."""
    permanent = bool(own.flags & addresses.IFA_F_PERMANENT)
    return permanent and not (own.family == socket.AF_INET6 and own.scope == routes.RT_SCOPE_LINK)


def _host_address(own: addresses.Address) -> HostAddress:
    return HostAddress(own.family, own.address, own.prefix, own.scope, own.flags & _KEPT_FLAGS)


def _host_routes(listed: Iterable[routes.Route]) -> Iterator[HostRoute]:
    for route in listed:
        by_itself = route.protocol in {routes.RTPROT_KERNEL, routes.RTPROT_RA}
        if not by_itself and route.type == routes.RTN_UNICAST:
            head = (route.family, route.table, route.dst, route.prefix, route.gateway, route.prefsrc)
            yield HostRoute(*head, route.protocol, route.scope, route.metric, route.onlink)
