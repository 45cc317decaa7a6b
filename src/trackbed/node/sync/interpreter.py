"""The running Python as a command for the host: it needs no Python, C library, shell or writable folder there.

The command names each of its files through an open descriptor of this container's root folder, and so finds them from
any mount namespace:

    /proc/self/fd/N/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2   the dynamic loader, and the folders of libraries
    /proc/self/fd/N/usr/local/bin/python3.13                        the interpreter; PYTHONHOME is its library's

Nothing is copied to the host: a copy would need a writable folder that is not mounted noexec, and would be left there
after a kill. A descriptor, unlike /proc/PID/root, stays valid when the process that opened it has ended. Paths are real
paths, since an absolute symbolic link would be resolved from the host's root. The loader ignores the host's cache of
libraries (ld.so(8), --inhibit-cache). A host without a shell, such as Talos, can be read, and under SELinux the process
keeps the type of its privileged container (spc_t), which may run the files of containers.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import NamedTuple

from trackbed.host.runner import PATH

_LOADER = re.compile(r"ld-.*\.so[.\d]*")
_LIBRARY = re.compile(r"lib.*\.so[.\d]*")


class Interpreter(NamedTuple):
    """A command that runs Python with the arguments that follow, and the environment and descriptor that it needs."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    root: int
    """Descriptor of the root folder; the command must inherit it under the same number."""


@contextmanager
def open_interpreter() -> Iterator[Interpreter]:
    """Open this Python for another mount namespace. It imports the standard library only, and no module of the host."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _build_interpreter(root, _read_mapped_files())
    finally:
        os.close(root)


def _build_interpreter(root: int, mapped: list[PurePosixPath]) -> Interpreter:
    base = f"/proc/self/fd/{root}"
    loader = next(path for path in mapped if _LOADER.fullmatch(path.name))
    libraries = dict.fromkeys(f"{base}{path.parent}" for path in mapped if _LIBRARY.fullmatch(path.name))
    argv = (f"{base}{loader}", "--inhibit-cache", "--library-path", ":".join(libraries))
    home = f"{base}{sys.base_prefix}:{base}{sys.base_exec_prefix}"
    program = os.path.realpath(sys.executable)
    return Interpreter((*argv, f"{base}{program}", "-PsS"), {"PATH": PATH, "PYTHONHOME": home}, root)


def _read_mapped_files() -> list[PurePosixPath]:
    """Return the real paths of the files that this process has mapped: loader and libraries (proc_pid_maps(5))."""
    with open("/proc/self/maps") as lines:  # noqa: PTH123 - a Path has nothing to add to a file of /proc
        columns = (line.rstrip("\n").split(maxsplit=5) for line in lines)
        return [PurePosixPath(path) for path in sorted({fields[5] for fields in columns if len(fields) > 5})]  # noqa: PLR2004 - the sixth field
