"""Commands run in an emulated server, over a loopback port that leads to its agent (agent.py has the messages)."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

_HEAD = struct.Struct("!cI")
_SPARE_SECONDS = 10.0
"""How much longer than a command's own limit is waited: the agent ends it, and says so."""

_MAX_FRAME = 1 << 24


class ChannelError(Exception):
    """The server did not answer, or went away; the message says which."""


class Channel(msgspec.Struct, frozen=True):
    """How one server is spoken to."""

    name: str
    port: int
    token: str


class CommandResult(msgspec.Struct, frozen=True):
    """What came of a command."""

    status: int
    """As a shell has it; 124 if it took too long, 127 if there is no such program."""
    output: bytes
    errors: bytes


def read_boot_id(channel: Channel, seconds: float = 5.0) -> str:
    """Which boot of the server answers. Raises ChannelError."""
    for letter, content in _asked(channel, {}, seconds):
        if letter == b"b":
            return content.decode()
    raise ChannelError(f"{channel.name} closed the connection without an answer")


def execute(channel: Channel, argv: Sequence[str], seconds: float = 600.0) -> CommandResult:
    """Run a command and keep what it says. Raises ChannelError."""
    said: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
    status = stream(channel, argv, lambda letter, content: said[letter].append(content), seconds)
    return CommandResult(status, b"".join(said[b"o"]), b"".join(said[b"e"]))


def stream(channel: Channel, argv: Sequence[str], hear: Callable[[bytes, bytes], None], seconds: float) -> int:
    """Run a command; `hear` gets what it says as it comes, as b"o" or b"e". Its status. Raises ChannelError."""
    for letter, content in _asked(channel, {"argv": list(argv), "seconds": seconds}, seconds + _SPARE_SECONDS):
        if letter == b"x":
            return int(struct.unpack("!i", content)[0])
        hear(letter, content)
    raise ChannelError(f"{channel.name} went away while {argv[0]} ran")


def _asked(channel: Channel, request: dict[str, object], seconds: float) -> Iterator[tuple[bytes, bytes]]:
    """The frames that answer a request, until the server closes the connection."""
    deadline = time.monotonic() + seconds
    with _told(channel), socket.create_connection(("127.0.0.1", channel.port), timeout=seconds) as line:
        line.sendall(json.dumps({"token": channel.token, **request}).encode() + b"\n")
        while head := _exactly(line, _HEAD.size, deadline):
            letter, length = _HEAD.unpack(head)
            if letter not in b"oexbr" or length > _MAX_FRAME:
                raise ChannelError(f"{channel.name} answers nonsense; is another program on port {channel.port}?")
            content = _exactly(line, length, deadline)
            if letter == b"r":
                raise ChannelError(f"{channel.name} refused: {content.decode(errors='replace')}")
            yield letter, content


@contextmanager
def _told(channel: Channel) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise ChannelError(f"{channel.name} did not answer in time") from error
    except OSError as error:
        raise ChannelError(f"{channel.name} cannot be spoken to: {error.strerror or error}") from error


def _exactly(line: socket.socket, length: int, deadline: float) -> bytes:
    """That many bytes; nothing if the connection ends before."""
    found = bytearray()
    while len(found) < length:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        piece = line.recv(length - len(found))
        if not piece:
            return b""
        found += piece
    return bytes(found)
