"""A TCP connection that a program makes to its own host, carried on from an address that the program cannot choose.

    {"port": 19515, "source": "10.64.0.1", "target": "10.64.0.3", "targetPort": 18515}

perftest exchanges its settings over TCP and binds no address, so that the main table decides which way they go. In a
pod of Multus that is the primary network: the sbr plugin moves a rail's routes to a table that the rail's address alone
selects.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Any

_LOOPBACK = "127.0.0.1"
_CONNECTIONS = "/proc/thread-self/net/tcp"
"""Connections of this network namespace: number, both ends, state, queues, timer, retries, user (proc_pid_net(5))."""
_ESTABLISHED = "01"
_READ_BYTES = 1 << 14
"""perftest sends some hundred bytes for each flow and waits for as many, so that a socket's buffer takes all of it."""
_LAST_READS = 16
"""What a program said before it ended; one that it left behind may go on without end."""


class Relay:
    """One connection of a program, and the one that carries it on. Nothing blocks: the selector's data are calls."""

    def __init__(self, step: Mapping[str, Any], selector: BaseSelector) -> None:
        """Listen on this host. Raises OSError, as where the port is in use."""
        self._step, self._selector = step, selector
        self._near, self._far = socket.socket(), socket.socket(_choose_family(step["source"]))
        self.failure = ""
        self._near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._near.settimeout(0)
        self._far.settimeout(0)
        try:
            self._near.bind((_LOOPBACK, step["port"]))
            self._near.listen(1)
        except OSError as error:
            self.close()
            raise OSError(error.errno, f"{_LOOPBACK}:{step['port']}: {error.strerror}") from None
        selector.register(self._near, EVENT_READ, self._accept)

    def close(self) -> None:
        """End both connections; what the program sent before it ended is carried on first."""
        for _ in range(_LAST_READS):
            if not self._carry(self._near, self._far):
                break
        for end in (self._near, self._far):
            self._leave(end)
            end.close()

    def _accept(self) -> None:
        """Take in the program, and connect from the rail's address; a program of another user is turned away."""
        listener = self._near
        try:
            stream, peer = listener.accept()
        except OSError:  # it has gone again
            return
        if not _is_ours(peer[1], self._step["port"]):
            stream.close()
            return
        self._leave(listener)
        listener.close()
        self._near = stream
        try:
            self._near.settimeout(0)
            self._far.bind((self._step["source"], 0))
            self._far.connect((self._step["target"], self._step["targetPort"]))
        except BlockingIOError:
            self._selector.register(self._far, EVENT_WRITE, self._join)
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _join(self) -> None:
        """Carry both ways, where the connection has come about."""
        self._leave(self._far)
        if code := self._far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail(os.strerror(code))
            return
        for source, sink in ((self._near, self._far), (self._far, self._near)):
            sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(source, EVENT_READ, partial(self._carry, source, sink))

    def _carry(self, source: socket.socket, sink: socket.socket) -> bool:
        """Carry what has arrived, and return whether there may be more; the end of one way leaves the other."""
        try:
            part = source.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self._leave(source)
            with suppress(OSError):  # it has ended too
                sink.shutdown(socket.SHUT_WR)
            return False
        try:
            sink.sendall(part)
        except OSError as error:
            self._leave(source)
            self.failure = f"the connection to {self._step['target']} broke: {error.strerror or error}"
            return False
        return True

    def _fail(self, reason: str) -> None:
        """Say why, and end the program's connection."""
        step = self._step
        self.failure = f"no connection from {step['source']} to {step['target']}:{step['targetPort']}: {reason}"
        self._near.close()

    def _leave(self, end: socket.socket) -> None:
        with suppress(KeyError, ValueError):  # it was not registered, or is closed
            self._selector.unregister(end)


def _is_ours(program_port: int, port: int) -> bool:
    """Return whether the program at the other end of a connection on the loopback address is of our own user."""
    loopback = f"{int.from_bytes(socket.inet_aton(_LOOPBACK), sys.byteorder):08X}"
    ends = [f"{loopback}:{program_port:04X}", f"{loopback}:{port:04X}", _ESTABLISHED]
    try:
        rows = Path(_CONNECTIONS).read_text().splitlines()
    except OSError:  # then nobody knows
        return True
    return any(words[1:4] == ends and words[7] == str(os.getuid()) for words in map(str.split, rows))


def _choose_family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
