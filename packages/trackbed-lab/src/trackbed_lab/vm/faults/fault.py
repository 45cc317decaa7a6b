"""The emulated server in which this program injects faults, and a fault's pair of functions."""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan, PortPlan

SECONDS = 60
"""Limit for the run time of one program."""


class FaultError(Exception):
    """A fault could not be injected or healed; the message has the program's error."""


@dataclass(slots=True)
class FaultyServer:
    """The emulated server on which this program runs, and the port at which faults are injected."""

    node: NodePlan
    port: PortPlan
    saved: dict[Path, bytes | None] = field(default_factory=dict)
    """Original content of written or removed files; None: there was no file."""

    def run(self, *argv: str) -> str:
        """Run a program and return its output. Raises FaultError if it fails."""
        process = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 - the lab's own arguments
        if process.returncode:
            raise FaultError(f"{' '.join(argv)}: {(process.stderr or process.stdout).strip()}")
        return process.stdout

    def write_file(self, path: str, text: str) -> None:
        """Write a file in sysfs, in /proc or on disk, and save its original content."""
        file = Path(path)
        self._save_content(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def remove_file(self, path: str) -> None:
        """Remove a file, and save its content."""
        self._save_content(Path(path))
        Path(path).unlink(missing_ok=True)

    def restore_saved_files(self) -> None:
        """Restore every file that was written or removed, in reverse order."""
        for path, content in reversed(self.saved.items()):
            if content is None:
                with suppress(OSError):
                    path.unlink()
            else:
                path.write_bytes(content)
        self.saved.clear()

    def _save_content(self, path: Path) -> None:
        if path not in self.saved:
            self.saved[path] = path.read_bytes() if path.exists() else None


def restore_files(server: FaultyServer) -> None:
    """Heal a fault that consists of written or removed files."""
    server.restore_saved_files()


class VmFault(NamedTuple):
    """A fault: its id in the catalogue, and the functions that inject and heal it."""

    id: str
    inject: Callable[[FaultyServer], None]
    heal: Callable[[FaultyServer], None] = restore_files
