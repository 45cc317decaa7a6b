"""containerd's store with images in it, created once on this machine for all nodes.

An emulated processor needs most of a minute to hash and unpack images that this machine unpacks in two seconds. So
containerd runs here briefly with only its stores enabled, and its folder is copied to the nodes' disks.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from trackbed_lab.kubernetes.images import ImageError
from trackbed_lab.processes import LabProcess, run_program, start_process, stop_processes

_SECONDS = 300.0
"""Limit for an image of 300 MB, which two idle cores unpack in 10 seconds."""
_POLL_SECONDS = 0.05
_DISABLED = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
_CONFIG = """\
version = 3
root = "{root}"
state = "{run}/state"
disabled_plugins = {disabled}
[grpc]
  address = "{run}/containerd.sock"
"""


def preload_images(root: Path, programs: Path, archives: Sequence[Path]) -> None:
    """Fill the empty folder `root` with the images of OCI archives. Raises ImageError."""
    with tempfile.TemporaryDirectory(prefix="trackbed-") as name:  # a short path, as it contains a unix socket
        run = Path(name)
        (run / "config.toml").write_text(_CONFIG.format(root=root, run=run, disabled=list(_DISABLED)))
        argv = [*_build_unshare_command(), str(programs / "containerd"), "--config", str(run / "config.toml")]
        containerd = start_process("containerd", argv, run, detached=False)
        try:
            _wait_for_socket(run / "containerd.sock", containerd)
            for path in archives:
                _import_archive(programs / "ctr", run / "containerd.sock", path)
        finally:
            stop_processes([containerd])
    shutil.rmtree(root / "io.containerd.content.v1.content/ingest", ignore_errors=True)


def _build_unshare_command() -> list[str]:
    """Return the prefix that gives a program its own mounts (unshare(1)); a user becomes root of a user namespace."""
    return ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user"))]


def _wait_for_socket(socket: Path, containerd: LabProcess) -> None:
    deadline = time.monotonic() + _SECONDS
    while not socket.is_socket():
        if not containerd.is_alive or time.monotonic() > deadline:
            raise ImageError(f"containerd does not serve: {containerd.read_log_end()}")
        time.sleep(_POLL_SECONDS)


def _import_archive(ctr: Path, socket: Path, archive: Path) -> None:
    argv = [str(ctr), "--address", str(socket), "--namespace", "k8s.io", "images", "import", "--local", str(archive)]
    process = run_program(argv, _SECONDS, lambda message: ImageError(f"{archive} cannot be loaded: {message}"))
    if process.returncode:
        raise ImageError(f"{archive} cannot be loaded: {process.stderr.strip()}")
