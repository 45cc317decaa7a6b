"""Trackbed's image: a Python with its library, Trackbed as it is installed, and the packages that it requires.

The system's own Python is taken where it is of the version that runs here, since it is stripped: every megabyte is
hashed twice by an emulated processor.

Modules go in compiled, as Python has them in its cache: nothing is compiled again in a container that cannot write.
What cannot be compiled goes in as its source. Ours go in as both, since hosts are sent the sources (`fleet.archive`);
their caches then count whatever the time of the source (PEP 552).
"""

from __future__ import annotations

import compileall
import importlib.util
import re
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import trackbed
from trackbed.node.rails.install import BUILT
from trackbed_lab.kubernetes.images import Image, ImageError, libraries
from trackbed_lab.vm.parts import find_program

_LEFT_OUT = frozenset(
    {
        *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "venv"),
        *("site-packages", "dist-packages", "__pycache__", "distutils", "unittest"),
    }
)
_UNUSED = ("_tkinter.", "_sqlite3.", "_codecs_", "_curses", "_test", "_ctypes_test.", "_xx")
"""Beginnings of names of what is native and nobody needs, with the libraries that it would bring."""

_CACHE_HEAD = struct.Struct("<4xII")  # importlib._bootstrap_external: magic, flags, time of the source
_HEAD_BYTES, _UNCHECKED = 16, 1  # PEP 552: a cache by hash that is not compared with the source
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = f"usr/lib/{PYTHON}"
_OURS = "usr/lib/trackbed"
_BASE = Path(trackbed.__file__).parent
_SHIM = f"{_OURS}/trackbed/{BUILT.relative_to(_BASE)}"
_START = f"#!/usr/bin/{PYTHON} -IS\nimport sys\n\nsys.path.append('/{_OURS}')\n"
_START += "from trackbed.cli.main import main\n\nmain()\n"
_USERS = "root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"


def own(root: Path, name: str, shim: Path) -> Image:
    """The image; libraries below `root`, else this machine's; `shim` is the CNI executable. Raises ImageError."""
    python, library = _python()
    programs = {f"usr/bin/{PYTHON}": python, "usr/bin/nsenter": find_program(root, "nsenter").resolve()}
    sources = _sources()
    files = {**programs, **_standard_library(library), **_packages(), **sources, _SHIM: shim}
    native = [path for path in files.values() if ".so" in path.name]
    return Image(
        name,
        {**libraries([*programs.values(), *native], root), **files},
        {"usr/bin/trackbed": _START, "etc/passwd": _USERS},
        {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"},
        ("/usr/bin/trackbed",),
        data=dict(_caches(sources)),
    )


def _python() -> tuple[Path, Path]:
    """An interpreter and its standard library."""
    program, library = Path("/usr/bin", PYTHON), Path("/usr/lib", PYTHON)
    if program.exists() and (library / "os.py").exists():
        return program.resolve(), library
    return Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))


def _standard_library(base: Path) -> dict[str, Path]:
    return {f"{_LIBRARY}/{place}": path for place, path in _modules(base) if not place.startswith("config-")}


def _sources() -> dict[str, Path]:
    """Trackbed's own files."""
    compileall.compile_dir(_BASE, quiet=2)
    found = (path for path in sorted(_BASE.rglob("*")) if path.is_file())
    inside = ((path.relative_to(_BASE), path) for path in found)
    return {f"{_OURS}/trackbed/{place}": path for place, path in inside if not _LEFT_OUT & set(place.parts)}


def _caches(sources: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """What Python compiled them to, as it looks for it."""
    for inside, path in sources.items():
        cache = Path(importlib.util.cache_from_source(str(path))) if path.suffix == ".py" else None
        if cache is not None and _is_of(cache, path):
            content = cache.read_bytes()
            head = struct.pack("<4sI8x", content[:4], _UNCHECKED)
            yield str(Path(inside).parent / "__pycache__" / cache.name), head + content[_HEAD_BYTES:]


def _packages() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for one in _required(trackbed.__name__):
        listed = one.files or []
        for top in sorted({path.parts[0] for path in listed if not path.parts[0].startswith((".", "__pycache__"))}):
            place = Path(str(one.locate_file(top)))
            found |= {f"{_OURS}/{inside}": path for inside, path in _below(place)}
    return found


def _required(by: str) -> list[Distribution]:
    """All that a distribution requires here, and what that requires. Raises ImageError."""
    found: dict[str, Distribution] = {}
    waiting = list(_needs(_installed(by)))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _installed(name)
            waiting += _needs(found[name])
    return list(found.values())


def _needs(one: Distribution) -> Iterator[str]:
    """What a distribution requires: what stands under a condition (PEP 508) only if it is installed, extras not."""
    for line in one.requires or []:
        name, condition = re.split(r"(?![\w.-])", line, maxsplit=1)[0], line.partition(";")[2]
        if "extra" not in condition and (not condition or _is_here(name)):
            yield name


def _is_here(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise ImageError(f"the image needs {name}, which is not installed here") from error


def _below(place: Path) -> Iterator[tuple[str, Path]]:
    if place.is_dir():
        yield from ((f"{place.name}/{inside}", path) for inside, path in _modules(place))
    elif place.is_file():
        yield _module(place, place.name)


def _modules(base: Path) -> Iterator[tuple[str, Path]]:
    """Everything below a folder but for what nobody needs; compiled first, where that folder may be written to."""
    compileall.compile_dir(base, quiet=2)
    for path in sorted(base.rglob("*")):
        inside = path.relative_to(base)
        unused = path.suffix == ".so" and path.name.startswith(_UNUSED)
        if path.is_file() and not _LEFT_OUT & set(inside.parts) and not unused:
            yield _module(path, str(inside))


def _module(path: Path, inside: str) -> tuple[str, Path]:
    """A file, or where it is a module that has been compiled, what it was compiled to."""
    cache = Path(importlib.util.cache_from_source(str(path))) if path.suffix == ".py" else None
    if cache is not None and _is_of(cache, path):
        return f"{inside}c", cache
    return inside, path


def _is_of(cache: Path, source: Path) -> bool:
    try:
        flags, made = _CACHE_HEAD.unpack_from(cache.read_bytes()[: _CACHE_HEAD.size])
    except (OSError, struct.error):
        return False
    return (flags, made) == (0, int(source.stat().st_mtime) & 0xFFFF_FFFF)
