"""The agent's unix socket: one request per connection, handled in a thread, answered, and timed.

The agent logs and survives the following failures; any other ends it:

- a client closes the connection, is silent for 5 seconds, sends a malformed request, or is neither root nor the agent's
  user;
- descriptors or memory run out at accept (EMFILE, ENFILE, ENOBUFS, ENOMEM), and asyncio accepts again after a second;
- a handler raises an unexpected exception, which the runtime receives as code 110.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trackbed import __version__
from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import protocol
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.devices import read_offer
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.phases import Clock, Phases, Timing, Timings
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.store import Store

_log = logging.getLogger(__name__)

_THREADS = 16
_TIMEOUT_SECONDS = 5.0
_SHUTDOWN_SECONDS = 10.0
_REFUSED_KEPT = 20
_MAX_PATH_BYTES = 107  # sun_path of unix(7), without the NUL
_CREDENTIALS = struct.Struct("=iII")  # struct ucred of unix(7): pid, uid, gid


class _CallAnswer(NamedTuple):
    """Exit status and text for the executable, and the request if it was a valid call of a runtime."""

    status: int
    text: bytes
    request: CniRequest | None = None


class Server:
    """Serves the CNI handlers of one node on a unix socket."""

    def __init__(self, node: NodePlan, handlers: Handlers, store: Store, conflicts: Conflicts, clock: Clock) -> None:
        self._node = node
        self._handlers = handlers
        self._store = store
        self._conflicts = conflicts
        self._clock = clock
        self._timings = Timings()
        self._threads = ThreadPoolExecutor(_THREADS, "request")
        self._running: set[asyncio.Task[Any]] = set()
        self._refused: dict[Key, CniError] = {}

    async def serve(self, socket_path: Path, report_ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set; call `report_ready` once requests are accepted.

        Raises OSError if the socket cannot be created.
        """
        if len(os.fsencode(socket_path)) > _MAX_PATH_BYTES:
            raise OSError(0, f"a socket's path may have {_MAX_PATH_BYTES} bytes at most", str(socket_path))
        server = await asyncio.start_unix_server(self._handle_connection, sock=_open_listener(socket_path))
        try:
            report_ready()
            await stop.wait()
        finally:
            server.close()
            if self._running:
                await asyncio.wait(self._running, timeout=_SHUTDOWN_SECONDS)
            await self._conflicts.close()
            # A handler that goes on would write into a store that is closed, while the next agent gives its addresses.
            await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)
            os.unlink(socket_path)  # noqa: PTH108 - the event loop has nothing else to do at this point

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs this in a task
        self._running.add(task)
        try:
            await self._handle_request(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError) as error:
            _log.warning("a client disconnected before it had its answer: %s", type(error).__name__)
        finally:
            self._running.discard(task)
            writer.close()
            with suppress(ConnectionError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), _TIMEOUT_SECONDS)

    async def _handle_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not _is_permitted(writer.get_extra_info("socket")):
            return
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > protocol.MAX_FRAME_BYTES:
                _log.warning("a client announced %d bytes; %d are the most", length, protocol.MAX_FRAME_BYTES)
                return
            body = await reader.readexactly(length)
        phases = Phases(self._clock)
        status, text, request = await self._answer_request(body, phases)
        writer.write(protocol.encode_answer(status, text))
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await writer.drain()
        phases.mark("answer")
        if request is not None:
            self._finish_call(request, status, phases)

    async def _answer_request(self, body: bytes, phases: Phases) -> _CallAnswer:
        """Handle the request in a body and return the answer."""
        request: CniRequest | None = None
        try:
            environment, config = protocol.split_request(body)
            if protocol.STATUS_REQUEST in environment:
                return _CallAnswer(0, await asyncio.to_thread(self._encode_status))
            request = protocol.parse_request(environment, config)
            phases.mark("parse")
            loop = asyncio.get_running_loop()
            text = await loop.run_in_executor(self._threads, self._handlers.handle, request, phases)
            return _CallAnswer(0, text, request)
        except CniError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - one bad request must not end the rails of all later pods
            _log.exception("this is a bug of Trackbed")
            failure = CniError(
                Code.BUG, f"the agent failed: {type(error).__name__}: {error}", "its log has the traceback"
            )
        title = f"{request.command} {_format_pod(request)}" if request else "a request"
        _log.warning("%s: %s", title, failure)
        if request is not None and request.command == "ADD":
            self._keep_refused_add(request.key, failure)
        cni_version = request.cni_version if request else protocol.VERSIONS[-1]
        return _CallAnswer(1, protocol.encode_error(failure, cni_version), request)

    def _keep_refused_add(self, key: Key, failure: CniError) -> None:
        """Keep the latest refused ADDs for `trackbed agent status`, until their pod is attached or deleted."""
        self._refused.pop(key, None)
        self._refused[key] = failure
        while len(self._refused) > _REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]

    def _finish_call(self, request: CniRequest, status: int, phases: Phases) -> None:
        """Record the timing of an answered call; start the watch for conflicts after an ADD, stop it after a DEL."""
        pod = f"{request.key[0]}/{request.key[1]}"
        self._timings.add(Timing(request.command, pod, status, phases.microseconds))
        if request.command == "DEL":
            self._refused.pop(request.key, None)
            self._conflicts.stop_watch(request.key)
            if status == 0:
                _log.info("DEL %s: gone", _format_pod(request))
        elif request.command == "ADD" and status == 0:
            self._refused.pop(request.key, None)
            entry = self._store.get(request.key)
            if entry is not None:
                self._conflicts.start_watch(entry.attachment)
                _log.info("ADD %s", describe_attachment(entry.attachment))

    def _encode_status(self) -> bytes:
        return msgspec.json.encode(
            {
                "node": self._node.name,
                "fabric": self._node.common.fabric,
                "version": __version__,
                "free": self._store.count_free_addresses({port.rail: port.addresses for port in self._node.ports}),
                "attachments": [
                    {"done": entry.done, **msgspec.to_builtins(entry.attachment)}
                    for entry in self._store.list_entries()
                ],
                "devices": self._summarize_devices(),
                "conflicts": self._conflicts.list_conflicts(),
                "watched": self._conflicts.watch_count,
                "moved": self._handlers.attacher.moved_ports,
                "refused": [_describe_refusal(key, failure) for key, failure in tuple(self._refused.items())],
                "trouble": self._store.check_journal(),
                "timings": self._timings.list_timings(),
            }
        )

    def _summarize_devices(self) -> dict[int, dict[str, Any]]:
        """Return, by rail, the number of devices, the number of devices in pods, and the ids of lost devices."""
        moved = self._store.map_moved_devices()
        try:
            offer = read_offer(self._node, moved)
        except (OSError, NetlinkError) as error:
            _log.warning("the ports cannot be read: %s", error)
            return {}
        return {
            rail: {
                "devices": len(devices),
                "inPods": sum(slot[0] == rail for slot in moved),
                "lost": [device.id for device in devices if not device.healthy],
            }
            for rail, devices in offer.items()
        }


def describe_attachment(attachment: Attachment) -> str:
    """Describe an attachment in one line: the pod, and for each rail its interface, VF, RDMA device and addresses."""
    rails = []
    for port in attachment.ports:
        vf = (f"VF {port.host.vf}",) if port.host and port.host.pf else ()
        rdma = (port.rdma.name,) if port.rdma else ()
        rails.append(" ".join((port.name, *vf, *rdma, *(address.text for address in port.addresses))))
    return f"{attachment}: {', '.join(rails)}"


def _describe_refusal(key: Key, failure: CniError) -> dict[str, str]:
    code = "interface-exists" if failure.code == Code.EXISTS else str(int(failure.code))
    return {"pod": f"{key[0][:12]}/{key[1]}", "code": code, "message": failure.message}


def _format_pod(request: CniRequest) -> str:
    return "/".join(request.pod) if request.pod else f"{request.key[0]}/{request.key[1]}"


def _is_permitted(client: socket.socket) -> bool:
    """Return whether a client is root or the agent's user."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    if uid in {0, os.geteuid()}:
        return True
    _log.warning("refused a request of process %d of user %d", pid, uid)
    return False


def _open_listener(socket_path: Path) -> socket.socket:
    """Return a listening socket that only its owner can open.

    A file at `path` is stale, because the journal's lock excludes a second agent.
    """
    socket_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    socket_path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    umask = os.umask(0o177)
    try:
        listener.bind(str(socket_path))
    finally:
        os.umask(umask)
    listener.listen(128)
    return listener
