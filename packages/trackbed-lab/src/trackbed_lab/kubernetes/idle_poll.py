"""The library that is preloaded in the pods of a proof (idle_poll.c): their programs sleep where they would spin."""

import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from trackbed_lab.kubernetes.images import ImageError
from trackbed_lab.processes import run_program

_SECONDS = 60


def build_idle_poll() -> bytes:
    """Return the shared library, compiled. Raises ImageError if this machine has no C compiler."""
    source = files("trackbed_lab.kubernetes").joinpath("idle_poll.c")
    with as_file(source) as path, tempfile.TemporaryDirectory(prefix="trackbed-") as folder:
        library = Path(folder, "idle_poll.so")
        argv = ["cc", "-Os", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(library), str(path)]
        process = run_program(argv, _SECONDS, lambda message: ImageError(f"{message} (Debian: apt-get install gcc)"))
        if process.returncode:
            raise ImageError(f"{path} cannot be compiled: {process.stderr.strip()}")
        return library.read_bytes()
