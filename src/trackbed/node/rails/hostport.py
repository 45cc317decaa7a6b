"""The state of a port or VF on the host: read before it moves into a pod, restored when it has returned.

The kernel drops addresses, routes and sysctls of a device that leaves a namespace, and flushes its DCB APP table, since
it announces a move as NETDEV_UNREGISTER (net/core/dev.c; dcbnl_netdevice_event of net/dcb/dcbnl.c since 5.17, commit
91b0383fef06). It keeps routing rules; the driver keeps PFC, ETS and trust.
"""

import errno
import logging
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackbed.kernel.netlink import addresses, dcb, links, routes
from trackbed.kernel.netlink.links import parse_mac
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import pod
from trackbed.node.rails.attachment import HostAddress, HostPort, HostRoute, PodPort, PortIdentity
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps
from trackbed.node.rails.errors import CniError, Code

_log = logging.getLogger(__name__)

_CONF = ("arp_announce", "arp_filter", "arp_ignore", "forwarding", "rp_filter")
_CONF6 = ("accept_ra", "keep_addr_on_down")
_KEPT_FLAGS = addresses.IFA_F_NODAD | addresses.IFA_F_NOPREFIXROUTE
_POD_FLAGS = links.IFF_NOARP | links.IFF_PROMISC | links.IFF_ALLMULTI | links.IFF_MULTICAST
"""Flags that a pod can change and that stay with the device when it moves."""
_ETHERNET_MAC_BYTES = 6


def read_port_index(rail: int, netdev: str) -> int:
    """Return the interface index of a port. Raises CniError (KERNEL) if it is not on the host.

    An interface that only has an alternative name `netdev` is another one.
    """
    reason: OSError | None = None
    try:
        index = socket.if_nametoindex(netdev)
        if socket.if_indextoname(index) == netdev:
            return index
    except OSError as error:
        reason = error
    remedy = "`trackbed doctor` on this node says why and what to do"
    raise CniError(Code.KERNEL, f"rail {rail}: port {netdev} is not on this node", remedy) from reason


def read_host_port(host: Socket, link: links.Link, identity: PortIdentity | None = None) -> HostPort:
    """Return the state of a port or VF on the host.

    The listings are filtered, because complete ones would be slow on a node with many pods.
    """
    return HostPort(
        name=link.name,
        ifindex=link.index,
        mtu_bytes=link.mtu,
        up=link.is_up,
        conf=pod.read_ipv4_sysctls(link.name, _CONF),
        addresses=tuple(
            HostAddress(address.family, address.address, address.prefix, address.scope, address.flags & _KEPT_FLAGS)
            for address in addresses.list_addresses(host, index=link.index)
            if _is_configured(address)
        ),
        routes=tuple(_iter_host_routes(routes.list_routes(host, oif=link.index))),
        conf6=_read_ipv6_sysctls(link.name),
        dscp_priorities=_read_dscp_priorities(host, link.name),
        identity=identity,
        flags=link.flags & _POD_FLAGS,
        group=link.group,
        txqlen=link.txqlen,
        alias=link.alias,
        altnames=tuple(filter(str.isprintable, link.altnames)),  # the record is JSON, which has no lone surrogates
        mode=link.mode,
        packet_limits=link.packet_limits,
        has_xdp=link.has_xdp,
    )


def restore_unbatched(host: Socket, state: HostPort) -> None:
    """Restore what the batch of `iter_restore_steps` cannot. Raises OSError, NetlinkError if the port is gone."""
    _restore_ipv6_sysctls(state)
    _restore_dscp_priorities(host, state)


def send_restore_steps(host: Socket, steps: list[NetlinkStep]) -> None:
    """Send the steps of several ports. A refusal is logged: it must not keep a pod from ending."""
    try:
        send_steps(host, sorted(steps, key=lambda step: step.action.startswith("add route via")))
    except StepsRefusedError as error:
        _log.warning("the host's state was not restored completely: %s; run `trackbed apply`", error)


def _read_dscp_priorities(host: Socket, netdev: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs (DSCP, priority) of a port's APP table; empty without DCB."""
    try:
        apps = dcb.get_dcb(host, netdev).apps
    except RequestError:
        return ()
    return tuple((app.protocol, app.priority) for app in apps if app.selector == dcb.IEEE_8021QAZ_APP_SEL_DSCP)


def _restore_dscp_priorities(host: Socket, state: HostPort) -> None:
    """Add the recorded entries that are missing. A refusal is logged: it must not keep a pod from ending.

    udev may start the port's boot unit at the same time, which adds the same entries (EEXIST).
    """
    missing = [pair for pair in state.dscp_priorities if pair not in _read_dscp_priorities(host, state.name)]
    for dscp, priority in missing:
        try:
            dcb.apply_setting(host, dcb.build_add_apps(state.name, [dcb.build_dscp_app(dscp, priority)]))
        except RequestError as error:
            if error.errno != errno.EEXIST:
                _log.warning("priority %d of DSCP %d is not restored on %s: %s", priority, dscp, state.name, error)


def _read_ipv6_sysctls(netdev: str) -> dict[str, int]:
    """Return the IPv6 sysctls that the step `addresses` of the host sets; netlink cannot set them."""
    folder = Path("/proc/sys/net/ipv6/conf", netdev)
    return {key: int((folder / key).read_text()) for key in _CONF6 if (folder / key).exists()}


def _restore_ipv6_sysctls(state: HostPort) -> None:
    mounted = Path("/host/proc/sys/net")  # the host's sysctls, for a container whose /proc/sys is read-only
    sysctls = mounted if mounted.is_dir() else Path("/proc/sys/net")
    for key, value in state.conf6.items():
        path = sysctls / "ipv6/conf" / state.name / key
        if int(path.read_text()) != value:
            path.write_text(str(value))


def iter_restore_steps(port: PodPort, state: HostPort, link: links.Link) -> Iterator[NetlinkStep]:
    """Yield the steps that restore the state of a port or VF; `link` is its interface on the host."""
    ifindex = link.index
    yield from _iter_pod_change_steps(port, state, link)
    set_up = links.build_set_link(ifindex, mtu=state.mtu_bytes, up=state.up, ipv4_conf=state.conf)
    yield NetlinkStep(port.rail, f"set up {state.name}", set_up)
    for address in state.addresses:
        message = addresses.build_replace_address(
            addresses.Address(ifindex, address.family, address.address, address.prefix, address.scope, address.flags)
        )
        yield NetlinkStep(port.rail, f"add an address to {state.name}", message)
    for route in state.routes:
        action = "add route via" if route.gateway else "add route on"
        message = routes.build_replace_route(
            routes.Route(
                family=route.family,
                table=route.table,
                dst=route.dst,
                prefix=route.prefix,
                oif=ifindex,
                gateway=route.gateway,
                prefsrc=route.prefsrc,
                protocol=route.protocol,
                scope=route.scope,
                metric=route.metric,
                onlink=route.onlink,
            )
        )
        yield NetlinkStep(port.rail, f"{action} {state.name}", message)


def _iter_pod_change_steps(port: PodPort, state: HostPort, link: links.Link) -> Iterator[NetlinkStep]:
    """Yield the steps that undo what a pod has changed of a device and a move keeps."""
    if link.mac != port.mac and len(parse_mac(port.mac)) == _ETHERNET_MAC_BYTES:
        message = links.build_set_link(link.index, mac=port.mac)
        yield NetlinkStep(port.rail, f"give {state.name} its MAC", message)
    if state.flags is None:  # a record of an earlier version
        return
    if link.flags & _POD_FLAGS != state.flags:
        message = links.build_set_flags(link.index, state.flags, _POD_FLAGS)
        yield NetlinkStep(port.rail, f"give {state.name} its flags", message)
    if (link.alias, link.txqlen, link.group) != (state.alias, state.txqlen, state.group):
        message = links.build_set_labels(link.index, alias=state.alias, txqlen=state.txqlen, group=state.group)
        yield NetlinkStep(port.rail, f"give {state.name} its alias, queue and group", message)
    if state.packet_limits and (link.mode, link.packet_limits) != (state.mode, state.packet_limits):
        message = links.build_set_limits(link.index, mode=state.mode, packet_limits=state.packet_limits)
        yield NetlinkStep(port.rail, f"give {state.name} its limits", message)
    if link.has_xdp and not state.has_xdp:
        for mode in (links.XDP_FLAGS_DRV_MODE, links.XDP_FLAGS_SKB_MODE):
            message = links.build_detach_xdp(link.index, mode)
            yield NetlinkStep(port.rail, f"take the XDP program from {state.name}", message)
    for name in set(link.altnames) - {*state.altnames, state.name}:
        message = links.build_delete_altname(link.index, name)
        yield NetlinkStep(port.rail, f"take the name {name} from {state.name}", message, errno.ENOENT)
    for name in set(state.altnames) - set(link.altnames):
        message = links.build_add_altname(link.index, name)
        yield NetlinkStep(port.rail, f"give {state.name} the name {name} too", message, errno.EEXIST)


def _is_configured(address: addresses.Address) -> bool:
    """Return whether an address was configured. The kernel and router advertisements restore all others."""
    permanent = bool(address.flags & addresses.IFA_F_PERMANENT)
    return permanent and not (address.family == socket.AF_INET6 and address.scope == routes.RT_SCOPE_LINK)


def _iter_host_routes(all_routes: Iterable[routes.Route]) -> Iterator[HostRoute]:
    """Yield the configured unicast routes, without those that the kernel or router advertisements restore."""
    for route in all_routes:
        if route.protocol not in {routes.RTPROT_KERNEL, routes.RTPROT_RA} and route.type == routes.RTN_UNICAST:
            head = (route.family, route.table, route.dst, route.prefix, route.gateway, route.prefsrc)
            yield HostRoute(*head, route.protocol, route.scope, route.metric, route.onlink)
