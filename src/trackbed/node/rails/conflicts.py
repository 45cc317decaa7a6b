"""Duplicate address detection for pods, by ARP probes (RFC 5227), after the runtime has its answer.

Probing takes seconds, so the ADD is answered first. Then each address is probed three times, a second apart. A station
that answers is reported in the log, in `trackbed agent status`, and by CHECK. IPv6 addresses are not probed.
"""

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from trackbed.fabric.model.ranges import V4, format_address
from trackbed.kernel.wire.arp import AddressClaim, Prober
from trackbed.kernel.wire.errors import ProbeError
from trackbed.node.rails import pod
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.sandbox import find_sandbox

_log = logging.getLogger(__name__)

_PAUSES_SECONDS = (1.0, 1.0, 2.0)
"""Pauses after each probe: PROBE_MIN, PROBE_MIN and ANNOUNCE_WAIT of RFC 5227, section 1.1."""
_ETHERNET_MAC_BYTES = 6


class Conflict(msgspec.Struct, frozen=True):
    """Another station, with MAC `other`, uses the address of a rail of a pod."""

    container: str
    ifname: str
    rail: int
    address: str
    other: str

    def __str__(self) -> str:
        return (
            f"rail {self.rail}: {self.address} is also used by {self.other}; "
            f"find that MAC in the leaf's table and take the address off that station"
        )


class Conflicts:
    """The detected address conflicts and the running watches, which run in the event loop that starts them."""

    def __init__(self) -> None:
        self._conflicts: dict[Key, tuple[Conflict, ...]] = {}
        self._watches: dict[Key, asyncio.Task[None]] = {}

    def list_conflicts(self) -> tuple[Conflict, ...]:
        """Return the address conflicts of all pods that are still attached."""
        return tuple(conflict for conflicts in tuple(self._conflicts.values()) for conflict in conflicts)

    @property
    def watch_count(self) -> int:
        """Number of pods whose addresses are being probed."""
        return len(self._watches)

    def describe_conflicts(self, key: Key) -> list[str]:
        """Return the address conflicts of one pod as sentences."""
        return [str(conflict) for conflict in self._conflicts.get(key, ())]

    def forget_conflicts(self, key: Key) -> None:
        """Forget the address conflicts of a pod that has ended."""
        self._conflicts.pop(key, None)

    def start_watch(self, attachment: Attachment) -> None:
        """Start to probe the addresses of a pod; call it in the event loop."""
        self.stop_watch(attachment.key)
        task = asyncio.create_task(self._probe_addresses(attachment))
        self._watches[attachment.key] = task
        task.add_done_callback(lambda _: self._finish_watch(attachment.key, task))

    def stop_watch(self, key: Key) -> None:
        """Stop probing the addresses of a pod, if they are being probed; call it in the event loop."""
        task = self._watches.pop(key, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all watches and wait until they have ended."""
        tasks = list(self._watches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finish_watch(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._watches.get(key) is task:
            del self._watches[key]
        if not task.cancelled() and task.exception():
            _log.warning("addresses of %s/%s could not be watched: %s", *key, task.exception())

    async def _probe_addresses(self, attachment: Attachment) -> None:
        """Probe the addresses of a pod, and record the stations that answer."""
        prober = await asyncio.to_thread(_open_prober, attachment)
        if prober is None:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(prober.fileno(), self._receive_answers, attachment, prober)
        try:
            for pause_seconds in _PAUSES_SECONDS:
                prober.send_probes()  # a failure to send means that the interface is gone, and its address with it
                await asyncio.sleep(pause_seconds)
        finally:
            loop.remove_reader(prober.fileno())
            await asyncio.shield(asyncio.to_thread(prober.close))

    def _receive_answers(self, attachment: Attachment, prober: Prober) -> None:
        prober.receive()
        conflicts = tuple(_iter_conflicts(attachment, prober))
        if conflicts and conflicts != self._conflicts.get(attachment.key):
            self._conflicts[attachment.key] = conflicts
            for conflict in conflicts:
                _log.error("%s: %s", attachment, conflict)


def _open_prober(attachment: Attachment) -> Prober | None:
    """Return a prober in the pod's namespace; None if the pod is gone or has no address to probe."""
    claims = [
        AddressClaim(pod.get_interface_index(port.rail), mac, address.plan.address)
        for port in attachment.ports
        if len(mac := bytes.fromhex(port.mac.replace(":", ""))) == _ETHERNET_MAC_BYTES
        for address in port.addresses
        if address.plan.version == V4
    ]
    with find_sandbox((attachment.netns,), attachment.inode) as sandbox:
        if sandbox is None or not claims:
            return None
        try:
            return Prober(sandbox.fd, claims)
        except ProbeError as error:
            _log.warning("addresses of %s are not watched: %s", attachment, error)
            return None


def _iter_conflicts(attachment: Attachment, prober: Prober) -> Iterable[Conflict]:
    rails = {pod.get_interface_index(port.rail): port.rail for port in attachment.ports}
    for conflict in prober.conflicts:
        address, other = format_address(V4, conflict.address), conflict.other_mac.hex(":")
        yield Conflict(attachment.container, attachment.ifname, rails[conflict.ifindex], address, other)
