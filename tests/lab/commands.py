"""`trackbed` as a process of its own, and a lab by a name that nobody else has."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from trackbed_lab.lab_folder import LabFolder

from tests.lab.fabrics import P2P, fabric

SECONDS = 60
_ROOT = Path(__file__).parents[2]
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    status: int
    out: str
    err: str


def trackbed(*arguments: object, before: tuple[str, ...] = (), variables: dict[str, str] | None = None) -> Said:
    """Run a command to its end; its output goes to files, as nobody needs to read them while it runs."""
    command = [*before, sys.executable, "-m", "trackbed", *map(str, arguments)]
    paths = f"{_ROOT}:{Path(sys.modules['trackbed'].__path__[0]).parent}"
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "PYTHONPATH": paths, **(variables or {})},
            timeout=SECONDS,
            check=False,
        )
        out.seek(0)
        err.seek(0)
        return Said(done.returncode, out.read(), err.read())


@contextmanager
def lab(folder: Path, *options: str, document: bytes = fabric(P2P)) -> Iterator[LabFolder]:
    """A lab that is up; down at the end, whatever happened."""
    source = folder / "fabric.yaml"
    source.write_bytes(document)
    place = LabFolder(f"test-{os.getpid()}-{next(_NUMBERS)}")
    try:
        done = trackbed("lab", "up", "-f", source, "--name", place.name, *options)
        if "does not allow namespaces" in done.err:
            pytest.skip(done.err)
        assert (done.status, done.err) == (0, "")
        yield place
    finally:
        trackbed("lab", "down", "--name", place.name)
