"""The agent's unix socket: one request a connection, worked on in a thread, answered, and timed.

Survived, and logged: a client that hangs up, is silent for 5 seconds, sends nonsense or is not root (or this user);
a lack of descriptors or memory at accept (EMFILE, ENFILE, ENOBUFS, ENOMEM: asyncio pauses a second and accepts again);
and a handler that fails in a way nobody foresaw, which the runtime is told as code 110. Anything else ends the agent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from trackbed import __version__
from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import protocol
from trackbed.node.rails.attachment import Attachment, Key, PodPort
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.devices import read_offer
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.phases import Clock, Phases, Timing, Timings
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.store import Store

_log = logging.getLogger(__name__)

_THREADS = 16
_PATIENCE_SECONDS = 5.0
_ENDING_SECONDS = 10.0
_REFUSED_KEPT = 20
_MAX_PATH_BYTES = 107  # sun_path of unix(7), without the NUL
_CREDENTIALS = struct.Struct("=iII")  # struct ucred of unix(7): pid, uid, gid


class Server:
    """Serves one node's handlers."""

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

    async def serve(self, path: Path, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Serve at `path` until `stop`; calls `ready` once requests are taken. OSError if it cannot listen there."""
        if len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise OSError(0, f"a socket's path may have {_MAX_PATH_BYTES} bytes at most", str(path))
        server = await asyncio.start_unix_server(self._connected, sock=_listening(path))
        ready()
        await stop.wait()
        server.close()
        if self._running:
            await asyncio.wait(self._running, timeout=_ENDING_SECONDS)
        await self._conflicts.close()
        self._threads.shutdown(wait=False)
        os.unlink(path)  # noqa: PTH108 - at the end nothing is left to be held up

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs this in a task
        self._running.add(task)
        try:
            await self._conversation(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError) as error:
            _log.warning("a client went away before it had its answer: %s", type(error).__name__)
        finally:
            self._running.discard(task)
            writer.close()
            with suppress(ConnectionError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), _PATIENCE_SECONDS)

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not _may_ask(writer.get_extra_info("socket")):
            return
        async with asyncio.timeout(_PATIENCE_SECONDS):
            length = int.from_bytes(await reader.readexactly(4), "big")
            if length > protocol.MAX_FRAME_BYTES:
                _log.warning("a client announced %d bytes; %d are the most", length, protocol.MAX_FRAME_BYTES)
                return
            body = await reader.readexactly(length)
        phases = Phases(self._clock)
        status, text, request = await self._answered(body, phases)
        writer.write(protocol.encode_answer(status, text))
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await writer.drain()
        phases.mark("answer")
        self._afterwards(request, status, phases)

    async def _answered(self, body: bytes, phases: Phases) -> tuple[int, bytes, CniRequest | None]:
        request: CniRequest | None = None
        try:
            environment, config = protocol.split_request(body)
            if protocol.STATUS_REQUEST in environment:
                return 0, await asyncio.to_thread(self._status), None
            request = protocol.parse_request(environment, config)
            phases.mark("parse")
            loop = asyncio.get_running_loop()
            return 0, await loop.run_in_executor(self._threads, self._handlers.handle, request, phases), request
        except CniError as error:
            failed = error
        except Exception as error:  # noqa: BLE001 - one bad request must not end the rails of all pods to come
            _log.exception("this is a bug of Trackbed")
            failed = CniError(
                Code.BUG, f"the agent failed: {type(error).__name__}: {error}", "its log has the traceback"
            )
        _log.warning("%s: %s", _title(request), failed)
        self._remember(request, failed)
        return 1, protocol.encode_error(failed, request.version if request else protocol.VERSIONS[-1]), request

    def _remember(self, request: CniRequest | None, failed: CniError) -> None:
        """Keep the last refused attaches for `status`, until their pod is attached or gone."""
        if request is None or request.command != "ADD":
            return
        self._refused.pop(request.key, None)
        self._refused[request.key] = failed
        while len(self._refused) > _REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]

    def _afterwards(self, request: CniRequest | None, status: int, phases: Phases) -> None:
        if request is None:
            return
        pod = f"{request.key[0]}/{request.key[1]}"
        self._timings.add(Timing(request.command, pod, status, phases.microseconds))
        if request.command == "DEL" or (request.command == "ADD" and status == 0):
            self._refused.pop(request.key, None)
        if request.command == "DEL":
            self._conflicts.unwatch(request.key)
        entry = self._store.get(request.key) if request.command == "ADD" and status == 0 else None
        if entry is not None:
            self._conflicts.watch(entry.attachment)
            _log.info("ADD %s", describe(entry.attachment))
        elif request.command == "DEL" and status == 0:
            _log.info("DEL %s: gone", _named(request))

    def _status(self) -> bytes:
        document = {
            "node": self._node.name,
            "fabric": self._node.common.fabric,
            "version": __version__,
            "free": self._store.count_free({port.rail: port.addresses for port in self._node.ports}),
            "attachments": [
                {"done": entry.done, **msgspec.to_builtins(entry.attachment)} for entry in self._store.list_entries()
            ],
            "devices": self._devices(),
            "conflicts": self._conflicts.list_conflicts(),
            "watched": self._conflicts.watched,
            "moved": self._handlers.moved,
            "refused": [_refusal(key, failed) for key, failed in tuple(self._refused.items())],
            "trouble": self._store.check_journal(),
            "timings": self._timings.list_timings(),
        }
        return msgspec.json.encode(document)

    def _devices(self) -> dict[int, dict[str, Any]]:
        """Of each rail how many devices there are, how many are in pods, and which are lost."""
        away = self._store.list_moved()
        try:
            offer = read_offer(self._node, away)
        except (OSError, NetlinkError) as error:
            _log.warning("the ports cannot be looked at: %s", error)
            return {}
        return {
            rail: {
                "devices": len(listed),
                "inPods": sum(place[0] == rail for place in away),
                "lost": [one.id for one in listed if not one.healthy],
            }
            for rail, listed in offer.items()
        }


def describe(attachment: Attachment) -> str:
    """An attachment in one line: the pod, and of each rail what it has there."""
    rails = (
        " ".join((port.name, *_vf(port), *((port.rdma.name,) if port.rdma else ()), *(a.text for a in port.addresses)))
        for port in attachment.ports
    )
    return f"{attachment}: {', '.join(rails)}"


def _vf(port: PodPort) -> tuple[str, ...]:
    return (f"VF {port.host.vf}",) if port.host and port.host.pf else ()


def _refusal(key: Key, failed: CniError) -> dict[str, str]:
    code = "interface-exists" if failed.code == Code.EXISTS else str(int(failed.code))
    return {"pod": f"{key[0][:12]}/{key[1]}", "code": code, "message": failed.message}


def _title(request: CniRequest | None) -> str:
    return f"{request.command} {_named(request)}" if request else "a request"


def _named(request: CniRequest) -> str:
    return "/".join(request.pod) if request.pod else f"{request.key[0]}/{request.key[1]}"


def _may_ask(asker: socket.socket) -> bool:
    credentials = asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    if uid in {0, os.geteuid()}:
        return True
    _log.warning("process %d of user %d may not ask", pid, uid)
    return False


def _listening(path: Path) -> socket.socket:
    """Listen, open to the owner alone. What lies there is left by an agent that died: the journal's lock is ours."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    finally:
        os.umask(before)
    listening.listen(128)
    return listening
