"""The device plugins of one node: a resource for each rail, served to the kubelet (device plugin API v1beta1).

    kubelet.sock replaced    the kubelet has restarted and removed the sockets of all plugins: register again
    every WATCH_SECONDS      read the devices; a changed list is sent to the kubelet at once

There is one socket for each rail in the kubelet's folder. Registration is retried until the kubelet responds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import cdi
from trackbed.node.rails.kubelet import messages
from trackbed.node.rails.kubelet.messages import Device, Offer
from trackbed.node.rails.kubelet.wire import WireError

_log = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
_CALL_SECONDS = 5.0
_SERVICE = "v1beta1.DevicePlugin"

_FileIdentity = tuple[int, int]
"""Inode and change time in nanoseconds."""


class Plugins:
    """The device plugins of all rails; they offer the devices that `read_offer` returns to the kubelet of `folder`."""

    def __init__(
        self, folder: Path, read_offer: Callable[[], Offer], list_files: Callable[[int], Iterable[str]] = lambda _: ()
    ) -> None:
        """`list_files` returns the device files that all pods of a rail share, for runtimes without CDI."""
        self._folder = folder
        self._list_files = list_files
        self._read_offer = read_offer
        self._offer: Offer = read_offer()
        self._changed = asyncio.Condition()
        self._servers: list[grpc.aio.Server] = []
        self._registered: _FileIdentity | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Offer the devices to the kubelet until `stop` is set."""
        try:
            while not stop.is_set():
                await self._update_kubelet()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), WATCH_SECONDS)
        finally:
            await self._stop_servers()

    async def _update_kubelet(self) -> None:
        """Register with the kubelet if it has restarted, and send it the devices if they have changed."""
        kubelet = _identify_file(self._folder / "kubelet.sock")
        if kubelet is None:
            return
        if kubelet != self._registered:
            await self._register_rails(kubelet)
        try:
            offer = await asyncio.to_thread(self._read_offer)
        except (OSError, NetlinkError) as error:
            _log.warning("the ports cannot be read, their devices are kept: %s", error)
            return
        if offer != self._offer:
            async with self._changed:
                self._offer = offer
                self._changed.notify_all()

    async def _register_rails(self, kubelet: _FileIdentity) -> None:
        """Serve all rails on new sockets, then register each. A refused registration is retried at the next update."""
        await self._stop_servers()
        for rail in self._offer:
            self._servers.append(await self._start_server(rail))
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._folder}/kubelet.sock") as channel:
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                    f"/{messages.VERSION}.Registration/Register"
                )
                for rail in self._offer:
                    request = messages.build_register_request(_build_socket_name(rail), rail)
                    await call(request, timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            _log.warning("the kubelet does not accept the devices yet: %s", error.details())
            return
        self._registered = kubelet
        _log.info("registered %d rails with the kubelet", len(self._offer))

    async def _start_server(self, rail: int) -> grpc.aio.Server:
        path = self._folder / _build_socket_name(rail)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, self._build_rpc_handlers(rail)),)
        )
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        return server

    def _build_rpc_handlers(self, rail: int) -> dict[str, Any]:
        async def get_options(_: bytes, __: object) -> bytes:
            return b""

        async def list_and_watch(_: bytes, __: object) -> AsyncIterator[bytes]:
            async for devices in self._watch_devices(rail):
                yield messages.build_device_list(devices)

        async def allocate(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
            try:
                containers = messages.parse_allocate_request(request)
            except WireError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request is no AllocateRequest: {error}")
            offered = {device.id for device in self._offer.get(rail, ())}
            if unknown := {device_id for ids in containers for device_id in ids} - offered:
                message = f"{len(unknown)} of the requested devices are not offered by rail {rail}"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
            files = await asyncio.to_thread(self._list_files, rail)
            return messages.build_allocate_response([map(cdi.qualify_name, ids) for ids in containers], files)

        return {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(get_options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
        }

    async def _watch_devices(self, rail: int) -> AsyncIterator[tuple[Device, ...]]:
        """Yield the devices of a rail, now and after each change."""
        sent: tuple[Device, ...] | None = None
        while True:
            async with self._changed:
                while self._offer.get(rail, ()) == sent:
                    await self._changed.wait()
                sent = self._offer.get(rail, ())
            yield sent

    async def _stop_servers(self) -> None:
        self._registered = None
        for server in self._servers:
            await server.stop(None)
        self._servers.clear()


def _build_socket_name(rail: int) -> str:
    return f"trackbed-rail{rail}.sock"


def _identify_file(path: Path) -> _FileIdentity | None:
    """Return the identity of a file, or None if it does not exist. A kubelet replaces its socket at each start."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
