"""The client of a server's agent, over a loopback port that QEMU forwards (module agent describes the messages)."""

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

_HEAD = struct.Struct("!cI")
_SPARE_SECONDS = 10.0
"""Time for the agent to kill a command that ran past its limit, and to report it."""

_MAX_FRAME = 1 << 24
_CHUNK = 1 << 16


class ChannelError(Exception):
    """The server did not respond or closed the connection; the message says which."""


class Channel(msgspec.Struct, frozen=True):
    """The port and the token of one server's agent."""

    name: str
    port: int
    token: str


class CommandResult(msgspec.Struct, frozen=True):
    """The exit status and the output of a command."""

    status: int
    """As a shell reports it; 124 if it ran past its limit, 127 if there is no such program."""
    output: bytes
    errors: bytes


def read_boot_id(channel: Channel, seconds: float = 5.0) -> str:
    """Return the boot id of the running server. Raises ChannelError."""
    for letter, content in _send_request(channel, {}, seconds):
        if letter == b"b":
            return content.decode()
    raise ChannelError(f"{channel.name} closed the connection without an answer")


def execute_command(channel: Channel, argv: Sequence[str], seconds: float = 600.0) -> CommandResult:
    """Run a command and collect its output. Raises ChannelError."""
    streams: dict[bytes, list[bytes]] = {b"o": [], b"e": []}
    status = stream_command(channel, argv, lambda letter, content: streams[letter].append(content), seconds)
    return CommandResult(status, b"".join(streams[b"o"]), b"".join(streams[b"e"]))


def stream_command(
    channel: Channel,
    argv: Sequence[str],
    write_output: Callable[[bytes, bytes], None],
    seconds: float,
    source: int | None = None,
) -> int:
    """Run a command and return its status.

    Args:
        channel: the server.
        argv: the command.
        write_output: called with b"o" or b"e" and each chunk of output as it arrives.
        seconds: limit of its time.
        source: file descriptor of its standard input; None: /dev/null.

    Raises:
        ChannelError: the server does not respond, or closed the connection.
    """
    request: dict[str, object] = {"argv": list(argv), "seconds": seconds, "input": source is not None}
    for letter, content in _send_request(channel, request, seconds + _SPARE_SECONDS, source):
        if letter == b"x":
            return int(struct.unpack("!i", content)[0])
        write_output(letter, content)
    raise ChannelError(f"{channel.name} went away while {argv[0]} ran")


def _send_request(
    channel: Channel, request: dict[str, object], seconds: float, source: int | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Send a request and yield the frames of the response until the server closes the connection."""
    deadline = time.monotonic() + seconds
    with (
        _map_socket_errors(channel),
        socket.create_connection(("127.0.0.1", channel.port), timeout=seconds) as connection,
    ):
        connection.sendall(json.dumps({"token": channel.token, **request}).encode() + b"\n")
        if source is not None:
            threading.Thread(target=_send_input, args=(connection, source), daemon=True).start()
        while head := _receive_exactly(connection, _HEAD.size, deadline):
            letter, length = _HEAD.unpack(head)
            if letter not in b"oexbr" or length > _MAX_FRAME:
                raise ChannelError(f"{channel.name} answers nonsense; is another program on port {channel.port}?")
            content = _receive_exactly(connection, length, deadline)
            if letter == b"r":
                raise ChannelError(f"{channel.name} refused: {content.decode(errors='replace')}")
            yield letter, content


def _send_input(connection: socket.socket, source: int) -> None:
    """Send everything that can be read from a file descriptor, then an empty frame."""
    with suppress(OSError):  # the connection was closed, since the command has ended
        while content := os.read(source, _CHUNK):
            connection.sendall(_HEAD.pack(b"i", len(content)) + content)
        connection.sendall(_HEAD.pack(b"i", 0))


@contextmanager
def _map_socket_errors(channel: Channel) -> Iterator[None]:
    """Translate socket errors into ChannelError."""
    try:
        yield
    except TimeoutError as error:
        raise ChannelError(f"{channel.name} did not answer in time") from error
    except OSError as error:
        raise ChannelError(f"{channel.name} cannot be reached: {error.strerror or error}") from error


def _receive_exactly(connection: socket.socket, length: int, deadline: float) -> bytes:
    """Return `length` bytes, or b"" if the connection ends first."""
    received = bytearray()
    while len(received) < length:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise TimeoutError
        connection.settimeout(remaining_seconds)
        chunk = connection.recv(length - len(received))
        if not chunk:
            return b""
        received += chunk
    return bytes(received)
