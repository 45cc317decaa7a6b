"""Trackbed's image: a Python with its library, Trackbed as it is installed, and the packages that it requires.

The system's Python is used where its version is that of the running one. It is stripped, and an emulated processor
hashes every megabyte twice.

Modules are included compiled, from Python's cache, because a container with a read-only root cannot compile them. Files
that cannot be compiled are included as they are. Trackbed's own modules are included as both: hosts are sent the
sources (`fleet.archive`), and their caches are marked as unchecked (PEP 552), so the sources' times are ignored.
"""

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
from trackbed.node.rails.install import BUILT_EXECUTABLE
from trackbed_lab.kubernetes.images import ImageError, ImageSpec, find_libraries
from trackbed_lab.vm.parts import find_program

_EXCLUDED = frozenset(
    {
        *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "venv"),
        *("site-packages", "dist-packages", "__pycache__", "distutils", "unittest"),
    }
)
_UNUSED = ("_tkinter.", "_sqlite3.", "_codecs_", "_curses", "_test", "_ctypes_test.", "_xx")
"""Prefixes of unused extension modules, whose libraries would be included too."""

_CACHE_HEAD = struct.Struct("<4xII")  # importlib._bootstrap_external: magic, flags, time of the source
_HEAD_BYTES, _UNCHECKED = 16, 1  # PEP 552: an unchecked hash-based cache
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIBRARY = f"usr/lib/{PYTHON}"
_PRODUCT = "usr/lib/trackbed"
_BASE = Path(trackbed.__file__).parent
_SHIM = f"{_PRODUCT}/trackbed/{BUILT_EXECUTABLE.relative_to(_BASE)}"
_START = f"#!/usr/bin/{PYTHON} -IS\nimport sys\n\nsys.path.append('/{_PRODUCT}')\n"
_START += "from trackbed.cli.main import main\n\nmain()\n"
_USERS = "root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"


def build_product_image(root: Path, name: str, shim: Path) -> ImageSpec:
    """Return Trackbed's image. Raises ImageError.

    Shared libraries come from below `root`, else from this machine; `shim` is the CNI executable.
    """
    python, library = find_python()
    programs = {f"usr/bin/{PYTHON}": python, "usr/bin/nsenter": find_program(root, "nsenter").resolve()}
    sources = _collect_sources()
    files = {**programs, **collect_standard_library(library), **_collect_packages(), **sources, _SHIM: shim}
    native = [path for path in files.values() if ".so" in path.name]
    return ImageSpec(
        name,
        {**find_libraries([*programs.values(), *native], root), **files},
        {"usr/bin/trackbed": _START, "etc/passwd": _USERS},
        {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"},
        ("/usr/bin/trackbed",),
        data=dict(_iter_caches(sources)),
    )


def find_python() -> tuple[Path, Path]:
    """Return an interpreter and its standard library."""
    program, library = Path("/usr/bin", PYTHON), Path("/usr/lib", PYTHON)
    if program.exists() and (library / "os.py").exists():
        return program.resolve(), library
    return Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))


def collect_standard_library(base: Path) -> dict[str, Path]:
    """Compile a standard library; return its files by path in an image."""
    return {f"{_LIBRARY}/{target}": path for target, path in _iter_modules(base) if not target.startswith("config-")}


def _collect_sources() -> dict[str, Path]:
    """Compile Trackbed; return its files by path in the image."""
    compileall.compile_dir(_BASE, quiet=2)
    paths = (path.relative_to(_BASE) for path in sorted(_BASE.rglob("*")) if path.is_file())
    return {f"{_PRODUCT}/trackbed/{path}": _BASE / path for path in paths if not _EXCLUDED & set(path.parts)}


def _iter_caches(sources: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the compiled modules of the sources, each with its path in the image."""
    for target, path in sources.items():
        cache = Path(importlib.util.cache_from_source(str(path))) if path.suffix == ".py" else None
        if cache is not None and _is_current(cache, path):
            content = cache.read_bytes()
            head = struct.pack("<4sI8x", content[:4], _UNCHECKED)
            yield str(Path(target).parent / "__pycache__" / cache.name), head + content[_HEAD_BYTES:]


def _collect_packages() -> dict[str, Path]:
    """Return the files of all required distributions by path in the image."""
    files: dict[str, Path] = {}
    for package in _find_dependencies(trackbed.__name__):
        paths = package.files or []
        for name in sorted({path.parts[0] for path in paths if not path.parts[0].startswith((".", "__pycache__"))}):
            root = Path(str(package.locate_file(name)))
            files |= {f"{_PRODUCT}/{target}": path for target, path in _iter_files(root)}
    return files


def _find_dependencies(name: str) -> list[Distribution]:
    """Return the direct and indirect dependencies of a distribution. Raises ImageError."""
    dependencies: dict[str, Distribution] = {}
    waiting = list(_iter_requirements(_get_distribution(name)))
    while waiting:
        required = waiting.pop()
        if required not in dependencies:
            dependencies[required] = _get_distribution(required)
            waiting += _iter_requirements(dependencies[required])
    return list(dependencies.values())


def _iter_requirements(package: Distribution) -> Iterator[str]:
    """Yield the requirements of a distribution without its extras; conditional ones (PEP 508) only if installed."""
    for line in package.requires or []:
        name, condition = re.split(r"(?![\w.-])", line, maxsplit=1)[0], line.partition(";")[2]
        if "extra" not in condition and (not condition or _is_installed(name)):
            yield name


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _get_distribution(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise ImageError(f"the image needs {name}, which is not installed here") from error


def _iter_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package folder, or of a single module, each with its path in the image."""
    if root.is_dir():
        yield from ((f"{root.name}/{target}", path) for target, path in _iter_modules(root))
    elif root.is_file():
        yield _choose_compiled_file(root, root.name)


def _iter_modules(base: Path) -> Iterator[tuple[str, Path]]:
    """Compile the modules below a folder, if it is writable; yield its files except for the excluded and unused."""
    compileall.compile_dir(base, quiet=2)
    for path in sorted(base.rglob("*")):
        target = path.relative_to(base)
        unused = path.suffix == ".so" and path.name.startswith(_UNUSED)
        if path.is_file() and not _EXCLUDED & set(target.parts) and not unused:
            yield _choose_compiled_file(path, str(target))


def _choose_compiled_file(path: Path, target: str) -> tuple[str, Path]:
    """Return target and path of a module's compiled file if it is current, else those of the file itself."""
    cache = Path(importlib.util.cache_from_source(str(path))) if path.suffix == ".py" else None
    if cache is not None and _is_current(cache, path):
        return f"{target}c", cache
    return target, path


def _is_current(cache: Path, source: Path) -> bool:
    """Return whether a cache was compiled from the present source, by its time."""
    try:
        flags, source_time = _CACHE_HEAD.unpack_from(cache.read_bytes()[: _CACHE_HEAD.size])
    except (OSError, struct.error):
        return False
    return (flags, source_time) == (0, int(source.stat().st_mtime) & 0xFFFF_FFFF)
