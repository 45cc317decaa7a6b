"""Puts the CNI executable where a runtime looks for it: the shim, told its interpreter and its agent's socket."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trackbed

NAME = "trackbed"
"""The executable's name, and the `type` of a network configuration that calls it."""
_SHIM = Path(trackbed.__file__).parent / "cni" / "shim.py"
_SOCKET_LINE = 'SOCKET = b"/run/trackbed/agent.sock"'


def install(folder: Path, socket: Path, python: Path | None = None) -> Path:
    """Write the executable into `folder`, in one step so that no runtime ever starts half of it; return its path.

    `python` is the interpreter that the runtime finds (3.9 or later); by default the one that runs here, by its real
    name: a virtual environment's costs 1 ms more at each start, a pyenv shim 80.
    """
    interpreter = python or os.path.realpath(sys.executable)
    head, _, rest = _SHIM.read_text().partition("\n")
    if not head.startswith("#!") or rest.count(_SOCKET_LINE) != 1:
        raise RuntimeError(f"{_SHIM} is not as it was when this was written")  # a test keeps the two together
    text = f"#!{interpreter} -ISE\n" + rest.replace(_SOCKET_LINE, f"SOCKET = {os.fsencode(socket.absolute())!r}")
    new = folder / f".{NAME}.new"
    new.write_text(text)
    new.chmod(0o755)
    return new.rename(folder / NAME)
