"""A fault of a host, as it is made and mended inside an emulated server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan, PortPlan

SECONDS = 60
"""A program that takes longer hangs."""


class FaultError(Exception):
    """A program that makes or mends a fault failed; the message is what it said."""


@dataclass(slots=True)
class FaultyServer:
    """The server that the fault is put in: this very machine. Only ever run inside an emulated server."""

    node: NodePlan
    port: PortPlan
    kept: dict[Path, bytes | None] = field(default_factory=dict)
    """Files as they were before `write` or `remove`: what `restore` puts back."""

    def run(self, *argv: str) -> str:
        """Run a program to its good end; what it wrote. Raises RefusedError."""
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 - the lab's own words
        if done.returncode:
            raise FaultError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file, in sysfs, in /proc or on disk; `restore` puts back what was there."""
        place = Path(path)
        self._keep(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def remove(self, path: str) -> None:
        """Remove a file; `restore` puts it back."""
        self._keep(Path(path))
        Path(path).unlink(missing_ok=True)

    def restore(self) -> None:
        """Put every file back that was written or removed, last first."""
        for place, content in reversed(self.kept.items()):
            if content is None:
                with suppress(OSError):
                    place.unlink()
            else:
                place.write_bytes(content)
        self.kept.clear()

    def _keep(self, place: Path) -> None:
        if place not in self.kept:
            self.kept[place] = place.read_bytes() if place.exists() else None


def restore_files(server: FaultyServer) -> None:
    """Putting files back is enough."""
    server.restore()


class VmFault(NamedTuple):
    """One fault: its id in the catalogue, how to make it, and how to mend it."""

    id: str
    inject: Callable[[FaultyServer], None]
    heal: Callable[[FaultyServer], None] = restore_files
