"""Asks a running agent how it is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import msgspec

from trackbed.node.rails.protocol import STATUS_REQUEST

_TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1 << 26


def status(path: Path) -> dict[str, Any]:
    """The agent's own account: node, attachments, conflicts, trouble, timings. OSError if it does not answer."""
    body = f"{STATUS_REQUEST}=1\0\0".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(_TIMEOUT_SECONDS)
        asker.connect(str(path))
        asker.sendall(len(body).to_bytes(4, "big") + body)
        head = _exactly(asker, 5)
        length = int.from_bytes(head[:4], "big")
        if length > _MAX_ANSWER_BYTES:
            raise ConnectionError(f"the agent announced {length} bytes")
        read: dict[str, Any] = msgspec.json.decode(_exactly(asker, length))
    return read


def _exactly(asker: socket.socket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        more = asker.recv(count - len(read))
        if not more:
            raise ConnectionError("the agent hung up half way")
        read += more
    return read
