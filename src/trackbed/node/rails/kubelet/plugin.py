"""The device plugins of one node: a resource for each rail, served to the kubelet (device plugin API v1beta1).

    kubelet.sock removed and made anew    the kubelet has restarted: it threw all plugins' sockets away and knows none
    every WATCH_SECONDS                    devices are looked at; a list that differs is sent to the kubelet at once

One socket for each rail lies in the kubelet's folder. While the kubelet is away nothing is lost: registering is tried
again until it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import cdi
from trackbed.node.rails.kubelet import messages
from trackbed.node.rails.kubelet.messages import Device, Offer

if TYPE_CHECKING:
    _Context = grpc.aio.ServicerContext[bytes, bytes]

_log = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
_CALL_SECONDS = 5.0
_SERVICE = "v1beta1.DevicePlugin"


class Plugins:
    """Offers what `look` says, to the kubelet whose folder it is."""

    def __init__(self, folder: Path, look: Callable[[], Offer]) -> None:
        self._folder = folder
        self._look = look
        self._offer: Offer = look()
        self._changed = asyncio.Condition()
        self._servers: list[grpc.aio.Server] = []
        self._registered: tuple[int, int] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Offer until `stop`."""
        try:
            while not stop.is_set():
                await self._turn()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        finally:
            await self._end()

    async def _turn(self) -> None:
        """Register with a kubelet that does not know us; tell it what has changed."""
        kubelet = _identity(self._folder / "kubelet.sock")
        if kubelet is None:
            return
        if kubelet != self._registered:
            await self._begin(kubelet)
        try:
            found = await asyncio.to_thread(self._look)
        except (OSError, NetlinkError) as error:
            _log.warning("the ports cannot be looked at, their devices stay as they were: %s", error)
            return
        if found != self._offer:
            async with self._changed:
                self._offer = found
                self._changed.notify_all()

    async def _begin(self, kubelet: tuple[int, int]) -> None:
        """Serve all rails on new sockets, then register each; what the kubelet refuses is tried at the next turn."""
        await self._end()
        for rail in self._offer:
            self._servers.append(await self._served(rail))
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._folder}/kubelet.sock") as channel:
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                    f"/{messages.VERSION}.Registration/Register"
                )
                for rail in self._offer:
                    await call(messages.build_register_request(_socket(rail), rail), timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            _log.warning("the kubelet does not take our devices yet: %s", error.details())
            return
        self._registered = kubelet
        _log.info("the kubelet has our %d rails", len(self._offer))

    async def _served(self, rail: int) -> grpc.aio.Server:
        path = self._folder / _socket(rail)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, self._methods(rail)),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        return server

    def _methods(self, rail: int) -> dict[str, Any]:
        async def options(_: bytes, __: _Context) -> bytes:
            return b""

        async def watch(_: bytes, __: _Context) -> AsyncIterator[bytes]:
            async for devices in self._lists(rail):
                yield messages.build_device_list(devices)

        async def allocate(request: bytes, _: _Context) -> bytes:
            return messages.build_allocate_response(
                [map(cdi.qualify_name, ids) for ids in messages.parse_allocate_request(request)]
            )

        return {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
        }

    async def _lists(self, rail: int) -> AsyncIterator[tuple[Device, ...]]:
        """What there is of a rail, now and whenever it changes."""
        sent: tuple[Device, ...] | None = None
        while True:
            async with self._changed:
                while self._offer.get(rail, ()) == sent:
                    await self._changed.wait()
                sent = self._offer.get(rail, ())
            yield sent

    async def _end(self) -> None:
        self._registered = None
        for server in self._servers:
            await server.stop(None)
        self._servers.clear()


def _socket(rail: int) -> str:
    return f"trackbed-rail{rail}.sock"


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file this is; None if there is none. A kubelet makes its socket anew at each start."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_ctime_ns
