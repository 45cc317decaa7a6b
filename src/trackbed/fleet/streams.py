"""TCP streams between this host and others, both ways at once, beside each other; what each end received in a window.

    {"stream": {"source": "10.64.0.1", "target": "10.64.0.3", "port": 18515, "listens": true, "sourcePort": 0,
                "seconds": 4.0}, "after": 0.0}
    {"receivedBytes": 2000000, "seconds": 3.99, "segmentBytes": 8948}, or {"failure": "..."}

The end that listens accepts its target alone; the other one connects, and tries again until it listens. Both send as
fast as the kernel accepts, and count what arrives from SETTLE_SECONDS after the connection on.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from trackbed.fleet.sheet_input import SheetInput

SETTLE_SECONDS = 2.0
"""Time for congestion control to find the rate, and for queues to fill."""
GRACE_SECONDS = 0.5
"""An end goes on sending for this long, since its peer's window may have begun later."""
_WAIT_SECONDS = 0.2
_Timeout = socket.timeout
"""Not a TimeoutError before Python 3.10."""
_SEND_BYTES = 1 << 18
"""Of the socket's buffer: more would stand in queues of a slow port when the round is over."""
_NO_LINGER = struct.pack("ii", 1, 0)
"""A close drops what was not sent yet."""

NumberedSteps = Sequence[tuple[int, Mapping[str, Any]]]


def run_streams(steps: NumberedSteps, deadline: float, sheets: SheetInput) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Run streams until each has counted, or until `deadline` by the monotonic clock.

    Raises InputClosedError if the input ends meanwhile.
    """
    outputs: dict[int, Mapping[str, Any]] = {}
    threads = [
        threading.Thread(target=_run_stream, args=(step_id, step, deadline, outputs), daemon=True)
        for step_id, step in steps
    ]
    for thread in threads:
        thread.start()
    while time.monotonic() < deadline and any(thread.is_alive() for thread in threads):
        sheets.sleep_until(min(deadline, time.monotonic() + _WAIT_SECONDS))
    late = {"failure": "the stream did not end in time"}
    yield from ((step_id, outputs.get(step_id, late)) for step_id, _ in steps)


def _run_stream(step_id: int, step: Mapping[str, Any], deadline: float, outputs: dict[int, Mapping[str, Any]]) -> None:
    try:
        time.sleep(step["after"])
        with _open_stream(step["stream"], deadline) as stream:
            outputs[step_id] = _exchange(stream, step["stream"]["seconds"], deadline)
    except OSError as error:
        outputs[step_id] = {"failure": str(error) or type(error).__name__}


def _open_stream(step: Mapping[str, Any], deadline: float) -> socket.socket:
    stream = _accept(step, deadline) if step["listens"] else _connect(step, deadline)
    stream.settimeout(_WAIT_SECONDS)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    return stream


def _accept(step: Mapping[str, Any], deadline: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in step["source"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        listener.bind((step["source"], step["port"]))
        listener.listen()
        while (seconds := deadline - time.monotonic()) > 0:
            listener.settimeout(seconds)
            stream, peer = listener.accept()
            if ip_address(peer[0]) == ip_address(step["target"]):
                return stream
            stream.close()
        raise TimeoutError(f"{step['target']} did not connect in time")


def _connect(step: Mapping[str, Any], deadline: float) -> socket.socket:
    while True:
        stream = socket.socket(socket.AF_INET6 if ":" in step["source"] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            stream.settimeout(max(_WAIT_SECONDS, deadline - time.monotonic()))
            stream.bind((step["source"], step["sourcePort"]))
            stream.connect((step["target"], step["port"]))
        except OSError as error:
            stream.close()
            if not isinstance(error, ConnectionRefusedError) or time.monotonic() + _WAIT_SECONDS > deadline:
                raise
            time.sleep(_WAIT_SECONDS)
        else:
            return stream


def _exchange(stream: socket.socket, seconds: float, deadline: float) -> Mapping[str, Any]:
    """Send and receive; return what was received in the window, which a late connection makes shorter.

    Raises OSError if the peer ends before, or the connection comes too late for a window.
    """
    begin = time.monotonic() + SETTLE_SECONDS
    end = min(begin + seconds, deadline - GRACE_SECONDS)
    if end <= begin:
        raise TimeoutError("it was connected too late to measure")
    sender = threading.Thread(target=_send, args=(stream, end + GRACE_SECONDS), daemon=True)
    sender.start()
    received, first, last = _receive(stream, begin, end)
    sender.join()
    silent = end - last > GRACE_SECONDS
    return {
        "receivedBytes": received,
        "seconds": (end if silent else last) - first,
        "segmentBytes": stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
    }


def _send(stream: socket.socket, end: float) -> None:
    chunk = bytes(_SEND_BYTES)
    while time.monotonic() < end:
        try:
            stream.send(chunk)
        except _Timeout:
            continue
        except OSError:
            return  # the peer is done, or the receiving side tells what is wrong


def _receive(stream: socket.socket, begin: float, end: float) -> tuple[int, float, float]:
    """Return the bytes from the first arrival after `begin` on, without that one, and the times of first and last."""
    buffer, received, first, last = bytearray(_SEND_BYTES), 0, begin, begin
    is_counting = False
    while (now := time.monotonic()) < end:
        try:
            count = stream.recv_into(buffer)
        except _Timeout:
            continue
        if not count:
            raise ConnectionError("the peer closed the stream before its end")
        now = time.monotonic()
        if is_counting:
            received, last = received + count, now
        elif now >= begin:
            is_counting, first, last = True, now, now
    return received, first, last
