"""Workers that another program starts in place of ssh: srun, mpirun, or whatever else runs a command on a node.

The program runs as whoever it makes it run; nobody asks sudo. Its standard input must reach the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

from trackbed.host.ssh_output import BoundedSshClient, BoundedSshWorker

NODE: Final = "%h"
"""Stands for the name of the node, as in ClusterShell's own commands and in ssh_config(5)."""
_MAX: Final = 200
"""Characters of an error."""
_WORDS: Final = "launcher"
"""Key of the words in the information of a ClusterShell task."""


def parse_launcher(text: str) -> list[str]:
    """Return the words of a launcher, which the shell's rules divide. Raises ValueError if it names no node."""
    words = shlex.split(text)
    if not any(NODE in word for word in words[1:]):
        raise ValueError(f"it must say where {NODE}, the node, belongs")
    return words


def find_error(lines: Sequence[str]) -> str:
    """Return the line of a launcher that says most: the first that mentions an error, as srun's, else the last."""
    texts = [line.strip() for line in lines if line.strip()]
    return next((text for text in texts if "error" in text.lower()), texts[-1] if texts else "it says nothing")[:_MAX]


class _LaunchedClient(BoundedSshClient):
    """One process of the launcher."""

    def _build_cmd(self) -> tuple[list[str], None]:
        """Return the words that start the command on the node."""
        words = self.worker.task.info(_WORDS)
        return [*(word.replace(NODE, self.key) for word in words), "sh", "-c", self.command], None


class _LaunchedWorker(BoundedSshWorker):
    """A worker that a launcher starts; its output is bounded as that of ssh is."""

    SHELL_CLASS = _LaunchedClient


def use_launcher(engine: Any, words: Sequence[str]) -> None:  # noqa: ANN401 - ClusterShell has no types
    """Let a launcher start all commands of a ClusterShell task."""
    engine.set_info(_WORDS, tuple(words))
    engine.set_default("distant_worker", _LaunchedWorker)
