"""Is another station using a pod's address? Asked by ARP (RFC 5227) once the runtime has its answer.

Asking takes seconds, and a pod must not wait for it. So the ADD is answered first; then each address is probed for
three times, a second apart, and whoever answers is reported: in the log, in `trackbed agent status`, and by CHECK.
IPv6 addresses are not asked about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from trackbed.fabric.model.ranges import V4, format_address
from trackbed.kernel.wire.arp import AddressClaim, Prober
from trackbed.kernel.wire.errors import ProbeError
from trackbed.node.rails import pod
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.sandbox import known

_log = logging.getLogger(__name__)

PAUSES_SECONDS = (1.0, 1.0, 2.0)
"""After each probe: PROBE_MIN, PROBE_MIN and ANNOUNCE_WAIT of RFC 5227, section 1.1."""
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
    """The conflicts heard of, and the watches that are going on. Watches run in the event loop that starts them."""

    def __init__(self, pauses_seconds: Iterable[float] = PAUSES_SECONDS) -> None:
        self._pauses_seconds = tuple(pauses_seconds)
        self._heard: dict[Key, tuple[Conflict, ...]] = {}
        self._watches: dict[Key, asyncio.Task[None]] = {}

    def all(self) -> tuple[Conflict, ...]:
        """Everything heard of pods that are still attached."""
        return tuple(conflict for heard in tuple(self._heard.values()) for conflict in heard)

    @property
    def watched(self) -> int:
        """How many pods are being watched."""
        return len(self._watches)

    def told(self, key: Key) -> list[str]:
        """What was heard of one pod, in words."""
        return [str(conflict) for conflict in self._heard.get(key, ())]

    def forget(self, key: Key) -> None:
        """The pod is gone."""
        self._heard.pop(key, None)

    def watch(self, attachment: Attachment) -> None:
        """Begin to watch; call it in the event loop."""
        self.unwatch(attachment.key)
        task = asyncio.create_task(self._watch(attachment))
        self._watches[attachment.key] = task
        task.add_done_callback(lambda _: self._over(attachment.key, task))

    def unwatch(self, key: Key) -> None:
        """Stop watching a pod, if it is watched; call it in the event loop."""
        task = self._watches.pop(key, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all watches."""
        tasks = list(self._watches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _over(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._watches.get(key) is task:
            del self._watches[key]
        if not task.cancelled() and task.exception():
            _log.warning("addresses of %s/%s could not be watched: %s", *key, task.exception())

    async def _watch(self, attachment: Attachment) -> None:
        prober = await asyncio.to_thread(_opened, attachment)
        if prober is None:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(prober.fileno(), self._receive, attachment, prober)
        try:
            for pause_seconds in self._pauses_seconds:
                prober.send_probes()  # what cannot be sent to is gone, and so is its claim
                await asyncio.sleep(pause_seconds)
        finally:
            loop.remove_reader(prober.fileno())
            await asyncio.shield(asyncio.to_thread(prober.close))

    def _receive(self, attachment: Attachment, prober: Prober) -> None:
        prober.receive()
        heard = tuple(_conflicts(attachment, prober))
        if heard and heard != self._heard.get(attachment.key):
            self._heard[attachment.key] = heard
            for conflict in heard:
                _log.error("%s: %s", attachment, conflict)


def _opened(attachment: Attachment) -> Prober | None:
    """A prober in the pod; None where it is gone or its links have no ARP."""
    claims = [
        AddressClaim(pod.index(port.rail), bytes.fromhex(port.mac.replace(":", "")), own.addressed.address)
        for port in attachment.ports
        for own in port.addresses
        if own.addressed.version == V4 and len(bytes.fromhex(port.mac.replace(":", ""))) == _ETHERNET_MAC_BYTES
    ]
    with known((attachment.netns,), attachment.inode) as sandbox:
        if sandbox is None or not claims:
            return None
        try:
            return Prober(sandbox.fd, claims)
        except ProbeError as error:
            _log.warning("addresses of %s are not watched: %s", attachment, error)
            return None


def _conflicts(attachment: Attachment, prober: Prober) -> Iterable[Conflict]:
    rails = {pod.index(port.rail): port.rail for port in attachment.ports}
    for found in prober.conflicts:
        address, other = format_address(V4, found.address), found.other_mac.hex(":")
        yield Conflict(attachment.container, attachment.ifname, rails[found.ifindex], address, other)
