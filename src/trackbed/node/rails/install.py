"""Installation of the CNI executable, with the path of the agent's socket written into it.

There are two equivalent executables. `node/cni/go`, which an image builds and puts into the package as
`node/cni/trackbed`, has no dependencies on the host and starts in 1 ms. `node/cni/shim.py`, which every installation
has, needs a Python on the host.
"""

import os
import sys
from pathlib import Path

import trackbed

NAME = "trackbed"
"""The executable's name, and the `type` of a network configuration that calls it."""
_CNI = Path(trackbed.__file__).parent / "node" / "cni"
_SHIM = _CNI / "shim.py"
BUILT = _CNI / NAME
"""Path of the built `node/cni/go` in an image."""
_SOCKET_LINE = 'SOCKET = b"/run/trackbed/agent.sock"'
_SOCKET_PLACEHOLDER = b"@trackbed-agent-socket@".ljust(107, b".")  # sun_path of unix(7) has 108 bytes with the NUL


def install(folder: Path, socket: Path, python: Path | None = None, built: Path = BUILT) -> Path:
    """Write the executable into `folder` and return its path.

    The file is replaced atomically, so a runtime never starts an incomplete one.

    Args:
        folder: the runtime's folder of CNI executables.
        socket: path of the agent's socket.
        python: the interpreter for the runtime, 3.9 or later. None: use `built` if it exists, else the running
            interpreter by its real path, because a virtual environment's costs 1 ms more at each start and a pyenv shim
            80 ms.
        built: path of the built executable.

    Raises:
        ValueError: the socket's path is longer than 107 bytes.
    """
    name = os.fsencode(socket.absolute())
    if len(name) > len(_SOCKET_PLACEHOLDER):
        raise ValueError(f"{socket}: a socket's path has {len(_SOCKET_PLACEHOLDER)} bytes at most")
    if python is None and built.exists():
        program = _replace_socket(built, _SOCKET_PLACEHOLDER, name.ljust(len(_SOCKET_PLACEHOLDER), b"\0"))
    else:
        text = _replace_socket(_SHIM, _SOCKET_LINE.encode(), b"SOCKET = %a" % name)
        program = b"#!%b -ISE\n" % os.fsencode(python or os.path.realpath(sys.executable)) + text.partition(b"\n")[2]
    new = folder / f".{NAME}.new"
    new.write_bytes(program)
    new.chmod(0o755)
    return new.rename(folder / NAME)


def _replace_socket(path: Path, placeholder: bytes, replacement: bytes) -> bytes:
    """Return the program at `path` with its placeholder replaced."""
    program = path.read_bytes()
    if program.count(placeholder) != 1:
        raise RuntimeError(f"{path} does not have the expected placeholder once")
    return program.replace(placeholder, replacement)
