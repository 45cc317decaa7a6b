"""A service of an emulated server: runs commands for whoever has the token.

Copied into the server's own folder and started there alone, so it imports nothing but the standard library.

    request    one line of JSON: {"token": T, "argv": [...], "seconds": S}; without argv it only asks who is there
    answer     frames: a letter (o output, e errors, x status, b boot id, r refused), length (4 bytes, big endian); text

A command is ended when it takes longer than S seconds or the caller goes away.
"""

from __future__ import annotations

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
from typing import Any

SHARED_FOLDER = Path("/run/own")
TIMED_OUT = 124
"""Status of a command that took too long, as timeout(1) has it."""

NOT_FOUND = 127
_MAX_REQUEST = 1 << 20
_CHUNK = 1 << 16
_REQUEST_SECONDS = 10.0
_LAST_SECONDS = 5.0
_FREEBIND = 15  # linux/in.h, IP_FREEBIND
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


def serve(settings: dict[str, Any]) -> None:
    """Answer requests for ever. The address need not be there yet: listening does not wait for the network."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_IP, _FREEBIND, 1)
        listening.bind((settings["address"], settings["port"]))
        listening.listen()
        log("ready")
        while True:
            caller, _ = listening.accept()
            threading.Thread(target=handle_request, args=(caller, settings["token"]), daemon=True).start()


def handle_request(caller: socket.socket, token: str) -> None:
    """Serve one request; a caller who goes away or sends nonsense is let go."""
    with caller, suppress(OSError, ValueError, KeyError, TypeError):
        caller.settimeout(_REQUEST_SECONDS)
        with caller.makefile("rb") as lines:
            request = json.loads(lines.readline(_MAX_REQUEST))
        if not hmac.compare_digest(str(request["token"]).encode(), token.encode()):
            send_frame(caller, b"r", b"wrong token")
        elif "argv" in request:
            run_command(caller, [str(word) for word in request["argv"]], float(request["seconds"]))
        else:
            send_frame(caller, b"b", Path("/proc/sys/kernel/random/boot_id").read_bytes().strip())


def run_command(caller: socket.socket, argv: list[str], seconds: float) -> None:
    """Run a command for a caller and hand on what it says."""
    try:
        child = subprocess.Popen(  # noqa: S603 - what the token's owner asks for
            argv,
            cwd="/",
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        send_frame(caller, b"e", f"{argv[0]}: {error.strerror}\n".encode())
        send_frame(caller, b"x", struct.pack("!i", NOT_FOUND))
        return
    with child:
        try:
            in_time = relay_output(caller, child, time.monotonic() + seconds)
            status = child.wait(_LAST_SECONDS) if in_time else TIMED_OUT
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    send_frame(caller, b"x", struct.pack("!i", status if status >= 0 else 128 - status))


def relay_output(caller: socket.socket, child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Hand on output until the command has ended; False if it took too long. OSError if the caller has gone."""
    selector = selectors.DefaultSelector()
    selector.register(caller, selectors.EVENT_READ, b"")
    for stream, letter in ((child.stdout, b"o"), (child.stderr, b"e")):
        if stream is not None:
            selector.register(stream, selectors.EVENT_READ, letter)
    while True:
        ended = child.poll() is not None  # before looking: what it said last is in the pipes by then
        ready = selector.select(0 if ended else 0.1)
        said = [forward_chunk(caller, key, selector) for key, _ in ready]
        if ended and not any(said):
            return True
        if time.monotonic() > deadline:
            return ended


def forward_chunk(caller: socket.socket, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
    """Hand on what one stream has; False at its end. A caller sends nothing more: hearing of it means it has gone."""
    if not key.data:
        raise ConnectionResetError
    said = os.read(key.fd, _CHUNK)
    if said:
        send_frame(caller, key.data, said)
    else:
        selector.unregister(key.fileobj)
    return bool(said)


def send_frame(caller: socket.socket, letter: bytes, content: bytes) -> None:
    """Send one frame."""
    caller.sendall(letter + struct.pack("!I", len(content)) + content)


def log(message: str) -> None:
    """A line on the console."""
    sys.stdout.write(f"trackbed: {message}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the settings, then serve."""
    serve(json.loads((SHARED_FOLDER / "config.json").read_text()))


if __name__ == "__main__":
    main()
