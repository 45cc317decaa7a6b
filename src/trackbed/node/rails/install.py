"""Installation of the CNI executable, with the path of the agent's socket written into it.

There are two equivalent executables. `node/cni/go`, which an image builds and puts into the package as
`node/cni/trackbed`, has no dependencies on the host and starts in 1 ms. `node/cni/shim.py`, which every installation
has, needs a Python on the host.
"""

import os
import sys
from pathlib import Path

import trackbed
from trackbed.host.atomic import replace

NAME = "trackbed"
"""The executable's name, and the `type` of a network configuration that calls it."""
_CNI = Path(trackbed.__file__).parent / "node" / "cni"
_SHIM = _CNI / "shim.py"
BUILT_EXECUTABLE = _CNI / NAME
"""Path of the executable that is built from `node/cni/go`; only images contain it."""
_SOCKET_LINE = 'SOCKET = b"/run/trackbed/agent.sock"'
_SOCKET_PLACEHOLDER = b"@trackbed-agent-socket@".ljust(107, b".")  # sun_path of unix(7) has 108 bytes with the NUL


def install_executable(
    program_folder: Path, agent_socket: Path, python: Path | None = None, binary: Path = BUILT_EXECUTABLE
) -> Path:
    """Write the CNI executable into `program_folder` and return its path.

    The file is replaced atomically, so a runtime never starts an incomplete one, not even after a power failure.

    Args:
        program_folder: the runtime's folder of CNI executables.
        agent_socket: path of the agent's socket.
        python: the interpreter that runs the executable, 3.9 or later. None: use `binary` if it exists, else the
            running interpreter by its real path, because the one of a virtual environment takes 1 ms more at each start
            and a pyenv shim 80 ms.
        binary: path of the built executable.

    Raises:
        ValueError: the socket's path is longer than 107 bytes.
    """
    name = os.fsencode(agent_socket.absolute())
    if len(name) > len(_SOCKET_PLACEHOLDER):
        raise ValueError(f"{agent_socket}: a socket's path has {len(_SOCKET_PLACEHOLDER)} bytes at most")
    if python is None and binary.exists():
        program = _fill_placeholder(binary, _SOCKET_PLACEHOLDER, name.ljust(len(_SOCKET_PLACEHOLDER), b"\0"))
    else:
        text = _fill_placeholder(_SHIM, _SOCKET_LINE.encode(), b"SOCKET = %a" % name)
        program = b"#!%b -ISE\n" % os.fsencode(python or os.path.realpath(sys.executable)) + text.partition(b"\n")[2]
    path = program_folder / NAME
    replace(path, program, 0o755)
    return path


def _fill_placeholder(path: Path, placeholder: bytes, replacement: bytes) -> bytes:
    program = path.read_bytes()
    if program.count(placeholder) != 1:
        raise RuntimeError(f"{path} does not have the expected placeholder once")
    return program.replace(placeholder, replacement)
