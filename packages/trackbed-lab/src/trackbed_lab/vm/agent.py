"""The agent of an emulated server, which runs commands for clients that present the token.

This file is copied into the server's shared folder and started there alone, so it imports only the standard library.

    request    one line of JSON: {"token": T, "argv": [...], "seconds": S}; without argv it asks for the boot id
    input      after a request with "input": true, frames with letter i; the empty one is its end
    response   frames: a letter (o output, e errors, x status, b boot id, r refused), length (4 bytes, big endian), text

A command is killed when it runs longer than S seconds or the client disconnects.
"""

import ctypes
import hmac
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

SHARED_FOLDER = Path("/run/own")
TIMED_OUT = 124
"""Status of a command that ran past its limit, as in timeout(1)."""

NOT_FOUND = 127
_HEAD = struct.Struct("!cI")
_MAX_REQUEST = 1 << 20
_CHUNK = 1 << 16
_REQUEST_SECONDS = 10.0
_EXIT_SECONDS = 5.0
_FREEBIND = 15  # linux/in.h, IP_FREEBIND
_TIMEX_LONGS, _ADJ_MAXERROR, _ADJ_STATUS = 26, 0x4, 0x10
_ENVIRONMENT = {
    "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{Path(sys.executable).parent}",  # trackbed
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


def serve(settings: dict[str, Any]) -> None:
    """Serve requests forever; IP_FREEBIND allows listening before the network is configured."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_IP, _FREEBIND, 1)
        listener.bind((settings["address"], settings["port"]))
        listener.listen()
        log_message("ready")
        while True:
            client, _ = listener.accept()
            threading.Thread(target=handle_request, args=(client, settings["token"]), daemon=True).start()


def handle_request(client: socket.socket, token: str) -> None:
    """Serve one request; close the connection without a response if the request is malformed."""
    with client, suppress(OSError, ValueError, KeyError, TypeError):
        client.settimeout(_REQUEST_SECONDS)
        with client.makefile("rb") as lines:
            request = json.loads(lines.readline(_MAX_REQUEST))
            if not hmac.compare_digest(str(request["token"]).encode(), token.encode()):
                send_frame(client, b"r", b"wrong token")
            elif "argv" in request:
                source = lines if request.get("input") else None
                run_command(client, [str(word) for word in request["argv"]], float(request["seconds"]), source)
            else:
                send_frame(client, b"b", Path("/proc/sys/kernel/random/boot_id").read_bytes().strip())


def run_command(client: socket.socket, argv: list[str], seconds: float, source: IO[bytes] | None) -> None:
    """Run a command with the input frames of `source`, forward its output to the client, then send its exit status."""
    try:
        child = subprocess.Popen(  # noqa: S603 - the client has presented the token
            argv,
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL if source is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        send_frame(client, b"e", f"{argv[0]}: {error.strerror}\n".encode())
        send_frame(client, b"x", struct.pack("!i", NOT_FOUND))
        return
    reader = None
    with child:
        try:
            if source is not None:
                reader = start_input(client, source, child)
            in_time = relay_output(client, child, time.monotonic() + seconds, reader)
            status = child.wait(_EXIT_SECONDS) if in_time else TIMED_OUT
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if reader is not None:
                client.shutdown(socket.SHUT_RD)  # wakes the reader
                reader.join(_EXIT_SECONDS)
    send_frame(client, b"x", struct.pack("!i", status if status >= 0 else 128 - status))


def start_input(client: socket.socket, source: IO[bytes], child: subprocess.Popen[bytes]) -> threading.Thread:
    """Start a thread that forwards input to a command; it ends when the client has disconnected."""
    client.settimeout(None)  # input may come late, but output must be accepted in time
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_REQUEST_SECONDS), 0))
    reader = threading.Thread(target=relay_input, args=(source, child), daemon=True)
    reader.start()
    return reader


def relay_input(source: IO[bytes], child: subprocess.Popen[bytes]) -> None:
    """Write the content of input frames to a command until the client has disconnected."""
    while len(head := source.read(_HEAD.size)) == _HEAD.size:
        content = source.read(_HEAD.unpack(head)[1])
        if child.stdin is not None and not child.stdin.closed:
            with suppress(OSError):  # the command reads no more, or has ended
                child.stdin.write(content)
                child.stdin.flush()
            if not content:
                child.stdin.close()


def relay_output(
    client: socket.socket, child: subprocess.Popen[bytes], deadline: float, reader: threading.Thread | None
) -> bool:
    """Forward output until the command has ended; return False if the deadline passed first.

    Raises:
        OSError: the client has disconnected: its socket is readable, or the reader of its input has ended.
    """
    selector = selectors.DefaultSelector()
    if reader is None:
        selector.register(client, selectors.EVENT_READ, b"")
    for stream, letter in ((child.stdout, b"o"), (child.stderr, b"e")):
        if stream is not None:
            selector.register(stream, selectors.EVENT_READ, letter)
    while True:
        ended = child.poll() is not None  # polled before the read: the pipes then hold everything it wrote
        ready = selector.select(0 if ended else 0.1)
        forwarded = [forward_chunk(client, key, selector) for key, _ in ready]
        if ended and not any(forwarded):
            return True
        if reader is not None and not reader.is_alive():
            raise ConnectionResetError
        if time.monotonic() > deadline:
            return ended


def forward_chunk(client: socket.socket, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
    """Forward the pending output of one stream; return False at its end.

    Raises:
        ConnectionResetError: the client's socket is readable. A client sends one request, so it has disconnected.
    """
    if not key.data:
        raise ConnectionResetError
    chunk = os.read(key.fd, _CHUNK)
    if chunk:
        send_frame(client, key.data, chunk)
    else:
        selector.unregister(key.fileobj)
    return bool(chunk)


def send_frame(client: socket.socket, letter: bytes, content: bytes) -> None:
    """Send one frame of a response."""
    client.sendall(_HEAD.pack(letter, len(content)) + content)


def synchronize_clock() -> None:
    """Tell the kernel that its clock is synchronized, as an NTP service would: the emulator keeps that of its host."""
    timex = (ctypes.c_long * _TIMEX_LONGS)()  # linux/timex.h: modes, offset, frequency, maxerror, esterror, status
    timex[0] = _ADJ_MAXERROR | _ADJ_STATUS
    ctypes.CDLL(None).adjtimex(ctypes.byref(timex))


def log_message(message: str) -> None:
    """Write a line to the console."""
    sys.stdout.write(f"trackbed: {message}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the settings, then serve."""
    synchronize_clock()
    serve(json.loads((SHARED_FOLDER / "config.json").read_text()))


if __name__ == "__main__":
    main()
