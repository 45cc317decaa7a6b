"""Mode move: the port itself goes into the pod and comes back.

What the kernel drops when a device leaves a namespace is read first and recorded: addresses, routes by it, switches.
DEL sets it again, so that the node is as it was: name, index (if still free), MTU, addresses, routes. Rules stay where
they are. Each move waits for an RCU grace period in the kernel (16 ms), whoever asks; there is no batch for that.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackbed.agent import batch, pod
from trackbed.agent.attachment import Attachment, HostAddress, HostPort, HostRoute, Port, address_of
from trackbed.agent.batch import Step, StepsRefusedError
from trackbed.agent.errors import CniError, Code
from trackbed.agent.sandbox import Sandbox
from trackbed.netlink import addresses, links, routes
from trackbed.netlink.codec import Message
from trackbed.netlink.sockets import RefusedError, Socket
from trackbed.plan.plan import NodePlan, PortPlan

_log = logging.getLogger(__name__)

_CONF = ("arp_announce", "arp_filter", "arp_ignore", "forwarding", "rp_filter")
_CONF6 = ("accept_ra", "keep_addr_on_down")
_KEPT_FLAGS = addresses.IFA_F_NODAD | addresses.IFA_F_NOPREFIXROUTE


class Move:
    """Moves ports of one node into pods and back."""

    def __init__(self, node: NodePlan, home: int) -> None:
        """`home` is a descriptor of the node's network namespace."""
        self._node = node
        self._home = home
        self.moved: set[str] = set()
        """Ports that have been in a pod since the agent started: their carrier counts say nothing of the cable."""

    def ports(self, rails: Iterable[int]) -> tuple[Port, ...]:
        """The node's ports on these rails as they stand on the host; CniError (KERNEL) if one is not there."""
        planned = [port for port in self._node.ports if port.rail in rails]
        with Socket() as host:
            found = [_link(host, port) for port in planned]
            listed = addresses.list_addresses(host), routes.list_routes(host)
        return tuple(self._port(port, link, *listed) for port, link in zip(planned, found, strict=True))

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Move the ports in and set them up; StepsRefusedError leaves whatever was done."""
        self.moved.update(port.host.name for port in attachment.ports if port.host)
        with Socket() as host:
            batch.send(host, _into_pod(attachment, sandbox))
        with Socket(netns=sandbox.fd) as inside:
            batch.send(inside, pod.bring_up(attachment, self._node.common))

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Move the ports back and give the host what it had; StepsRefusedError if one cannot leave the pod."""
        if sandbox is not None:
            with Socket(netns=sandbox.fd) as inside:
                batch.send(inside, pod.take_down(attachment, self._node.common, alone=alone))
                self._back(inside, attachment)
        with Socket() as host:
            _restore(host, attachment)

    def _back(self, inside: Socket, attachment: Attachment) -> None:
        there = {link.index: link for link in links.list_links(inside)}
        steps = [
            Step(port.rail, f"move {port.name} back", self._returning(port, port.host, keep_index=True))
            for port in attachment.ports
            if port.host and pod.index(port.rail) in there
        ]
        try:
            batch.send(inside, steps)
        except StepsRefusedError as error:
            again = [refusal.step for refusal in error.refusals if refusal.errno in {errno.EBUSY, errno.EEXIST}]
            if len(again) != len(error.refusals):
                raise
            _log.warning("%s; trying with a new index", error)
            batch.send(inside, (self._with_new_index(attachment, step) for step in again))

    def _with_new_index(self, attachment: Attachment, step: Step) -> Step:
        port = next(port for port in attachment.ports if port.rail == step.rail)
        assert port.host is not None  # noqa: S101 - only ports with it are moved
        return step._replace(message=self._returning(port, port.host, keep_index=False))

    def _returning(self, port: Port, was: HostPort, *, keep_index: bool) -> Message:
        new_index = was.ifindex if keep_index else None
        return links.set_link(pod.index(port.rail), name=was.name, netns_fd=self._home, new_index=new_index)

    def _port(
        self,
        planned: PortPlan,
        link: links.Link,
        listed: tuple[addresses.Address, ...],
        all_routes: tuple[routes.Route, ...],
    ) -> Port:
        host = HostPort(
            name=link.name,
            ifindex=link.index,
            mtu_bytes=link.mtu,
            up=link.up,
            conf=pod.ipv4_conf(link.name, _CONF),
            addresses=tuple(_host_address(own) for own in listed if own.index == link.index and _is_kept(own)),
            routes=tuple(_host_routes(all_routes, link.index)),
            conf6=_conf6(link.name),
        )
        common = self._node.common
        own = tuple(address_of(own) for own in planned.addressed)
        return Port(planned.rail, common.rails[planned.rail].netdev, link.mac, common.mtu_bytes, own, host)


def _link(host: Socket, port: PortPlan) -> links.Link:
    try:
        return links.get_link(host, port.netdev)
    except RefusedError as error:
        if error.errno != errno.ENODEV:
            raise
        remedy = "another pod may have it (`trackbed agent status`); if none has, `trackbed doctor` says why"
        raise CniError(Code.KERNEL, f"rail {port.rail}: port {port.netdev} is not on this node", remedy) from error


def _into_pod(attachment: Attachment, sandbox: Sandbox) -> Iterator[Step]:
    for port in attachment.ports:
        if port.host is None:
            continue
        message = links.set_link(
            port.host.ifindex,
            netns_fd=sandbox.fd,
            name=port.name,
            new_index=pod.index(port.rail),
            mtu=port.mtu_bytes,
        )
        yield Step(port.rail, f"move port {port.host.name} into the pod", message)


def _restore(host: Socket, attachment: Attachment) -> None:
    """Set what the host had. A route the kernel no longer takes must not keep a pod from ending: it is logged."""
    steps: list[Step] = []
    for port in attachment.ports:
        if port.host is None:
            continue
        try:
            steps += _settings(port, port.host, socket.if_nametoindex(port.host.name))
            _set_conf6(port.host)
        except OSError:
            name = port.host.name
            _log.warning("rail %d: port %s has not come back; once it has, run `trackbed apply`", port.rail, name)
    try:
        batch.send(host, sorted(steps, key=lambda step: step.what.startswith("add route via")))
    except StepsRefusedError as error:
        _log.warning("not everything could be given back to the host: %s; run `trackbed apply`", error)


def _conf6(name: str) -> dict[str, int]:
    """The port's IPv6 sysctls that the step addresses sets; netlink cannot (they are read-only there)."""
    folder = Path("/proc/sys/net/ipv6/conf", name)
    return {key: int((folder / key).read_text()) for key in _CONF6 if (folder / key).exists()}


def _set_conf6(was: HostPort) -> None:
    for key, value in was.conf6.items():
        Path("/proc/sys/net/ipv6/conf", was.name, key).write_text(str(value))


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


def _host_routes(listed: Iterable[routes.Route], index: int) -> Iterator[HostRoute]:
    for route in listed:
        by_itself = route.protocol in {routes.RTPROT_KERNEL, routes.RTPROT_RA}
        if route.oif == index and not by_itself and route.type == routes.RTN_UNICAST:
            head = (route.family, route.table, route.dst, route.prefix, route.gateway, route.prefsrc)
            yield HostRoute(*head, route.protocol, route.scope, route.metric, route.onlink)
