"""What containerd keeps below /var/lib/containerd, with images in it: made here, once for all nodes.

An emulated processor takes most of a minute to hash and unpack what this machine unpacks in two seconds. So containerd
runs here for a moment, without anything but its stores, and what it has written goes onto the nodes' disks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from trackbed_lab.kubernetes.images import ImageError
from trackbed_lab.processes import LabProcess, start_process, stop_processes

_SECONDS = 60.0
_POLL_SECONDS = 0.05
_NEEDLESS = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
_CONFIG = """\
version = 3
root = "{root}"
state = "{run}/state"
disabled_plugins = {needless}
[grpc]
  address = "{run}/containerd.sock"
"""


def preload(root: Path, programs: Path, archives: Sequence[Path]) -> None:
    """Fill the empty folder `root` with the images of OCI archives. Raises ImageError."""
    with tempfile.TemporaryDirectory(prefix="trackbed-") as made:  # a short path: it holds a unix socket
        run = Path(made)
        (run / "config.toml").write_text(_CONFIG.format(root=root, run=run, needless=list(_NEEDLESS)))
        argv = [*_mounting(), str(programs / "containerd"), "--config", str(run / "config.toml")]
        containerd = start_process("containerd", argv, run, detached=False)
        try:
            _await(run / "containerd.sock", containerd)
            for path in archives:
                _load(programs / "ctr", run / "containerd.sock", path)
        finally:
            stop_processes([containerd])
    shutil.rmtree(root / "io.containerd.content.v1.content/ingest", ignore_errors=True)


def _mounting() -> list[str]:
    """What lets a program mount where nobody else sees it (unshare(1)); a user becomes root of its own namespace."""
    return ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user"))]


def _await(socket: Path, containerd: LabProcess) -> None:
    deadline = time.monotonic() + _SECONDS
    while not socket.is_socket():
        if not containerd.is_alive or time.monotonic() > deadline:
            raise ImageError(f"containerd does not serve: {containerd.read_log_end()}")
        time.sleep(_POLL_SECONDS)


def _load(ctr: Path, socket: Path, archive: Path) -> None:
    argv = [str(ctr), "--address", str(socket), "--namespace", "k8s.io", "images", "import", "--local", str(archive)]
    try:
        done = subprocess.run(  # noqa: S603 - built here
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"{archive} cannot be loaded: {error}") from error
    if done.returncode:
        raise ImageError(f"{archive} cannot be loaded: {done.stderr.strip()}")
