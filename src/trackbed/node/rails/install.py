"""Puts the CNI executable where a runtime looks for it, told where its agent listens.

There are two that do the same. `node/cni/go`, which an image builds and puts into the package as `node/cni/trackbed`,
needs nothing of the host and starts in 1 ms. `node/cni/shim.py`, which every installation has, needs a Python there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trackbed

NAME = "trackbed"
"""The executable's name, and the `type` of a network configuration that calls it."""
_CNI = Path(trackbed.__file__).parent / "node" / "cni"
_SHIM = _CNI / "shim.py"
BUILT = _CNI / NAME
"""Where an image puts what it has built of `node/cni/go`."""
_SOCKET_LINE = 'SOCKET = b"/run/trackbed/agent.sock"'
_SOCKET_PLACE = b"@trackbed-agent-socket@".ljust(107, b".")  # of sun_path's 108 bytes, unix(7), one ends the name


def install(folder: Path, socket: Path, python: Path | None = None, built: Path = BUILT) -> Path:
    """Write the executable into `folder`, in one step so that no runtime ever starts half of it; return its path.

    `python` is the interpreter that the runtime finds (3.9 or later). Without it the built one is taken where there is
    one, else the interpreter that runs here, by its real name: a virtual environment's costs 1 ms more at each start, a
    pyenv shim 80. Raises ValueError if the socket's path is longer than 107 bytes.
    """
    name = os.fsencode(socket.absolute())
    if len(name) > len(_SOCKET_PLACE):
        raise ValueError(f"{socket}: a socket's path has {len(_SOCKET_PLACE)} bytes at most")
    if python is None and built.exists():
        program = _told(built.read_bytes(), _SOCKET_PLACE, name.ljust(len(_SOCKET_PLACE), b"\0"), built)
    else:
        text = _told(_SHIM.read_bytes(), _SOCKET_LINE.encode(), b"SOCKET = %a" % name, _SHIM)
        program = b"#!%b -ISE\n" % os.fsencode(python or os.path.realpath(sys.executable)) + text.partition(b"\n")[2]
    new = folder / f".{NAME}.new"
    new.write_bytes(program)
    new.chmod(0o755)
    return new.rename(folder / NAME)


def _told(program: bytes, place: bytes, name: bytes, path: Path) -> bytes:
    """A program with the socket's name in the place kept for it."""
    if program.count(place) != 1:
        raise RuntimeError(f"{path} is not as it was when this was written")  # a test keeps the two together
    return program.replace(place, name)
