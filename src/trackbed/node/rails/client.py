"""Client of a running agent: requests its status."""

import socket
from pathlib import Path
from typing import Any

import msgspec

from trackbed.node.rails.protocol import STATUS_REQUEST

_TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1 << 26


def read_status(path: Path) -> dict[str, Any]:
    """Return the status of the agent: node, attachments, conflicts, trouble, timings. Raises OSError."""
    body = f"{STATUS_REQUEST}=1\0\0".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(str(path))
        connection.sendall(len(body).to_bytes(4, "big") + body)
        head = _receive(connection, 5)
        length = int.from_bytes(head[:4], "big")
        if length > _MAX_ANSWER_BYTES:
            raise ConnectionError(f"the agent announced {length} bytes")
        status: dict[str, Any] = msgspec.json.decode(_receive(connection, length))
    return status


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError("the agent closed the connection before the end of its answer")
        received += chunk
    return received
