"""Client of a running agent: requests its status."""

import socket
from pathlib import Path
from typing import Any

import msgspec

from trackbed.node.rails.protocol import STATUS_REQUEST

_TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1 << 26


def read_status(socket_path: Path) -> dict[str, Any]:
    """Return the status of the agent: node, attachments, conflicts, trouble, timings.

    Raises:
        OSError: no agent answers, it reports an error, or the answer is not a status.
    """
    body = f"{STATUS_REQUEST}=1\0\0".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(str(socket_path))
        connection.sendall(len(body).to_bytes(4, "big") + body)
        head = _receive_bytes(connection, 5)
        length = int.from_bytes(head[:4], "big")
        if length > _MAX_ANSWER_BYTES:
            raise ConnectionError(f"the agent announced {length} bytes")
        answer = _receive_bytes(connection, length)
    if head[4] != 0:
        raise ConnectionError(f"the agent failed: {answer.decode(errors='replace')}")
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except ValueError as error:
        raise ConnectionError(f"the answer is not the status of an agent: {error}") from error


def _receive_bytes(connection: socket.socket, byte_count: int) -> bytes:
    received = b""
    while len(received) < byte_count:
        chunk = connection.recv(byte_count - len(received))
        if not chunk:
            raise ConnectionError("the agent closed the connection before the end of its answer")
        received += chunk
    return received
