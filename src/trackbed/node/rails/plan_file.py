"""The file of the node's plan: `trackbed apply` replaces it while the agent runs.

A plan that cannot be read, or is another node's, changes nothing: the agent goes on with the one it has, and says so.
"""

from __future__ import annotations

import logging
from pathlib import Path

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import read_node

_log = logging.getLogger(__name__)

_STAYS = "the plan from before stays until `trackbed apply` writes another"


class PlanFile:
    """The plan as the agent took it. Raises OSError and SpecError where there is none to begin with."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _state(path)
        self._content = path.read_bytes()
        self.node: NodePlan = read_node(self._content)

    def has_changed(self) -> bool:
        """Whether there is another plan by now that an agent can take. Reads only when the file is another one."""
        try:
            state = _state(self._path)
            if state == self._seen:
                return False
            self._seen = state
            content = self._path.read_bytes()
            wanted = self.node if content == self._content else read_node(content)
        except (OSError, SpecError) as error:
            why = error.strerror if isinstance(error, OSError) else error.problems[0].message
            _log.warning("%s: %s; %s", self._path, why, _STAYS)
            return False
        if wanted.name != self.node.name:
            names = self._path, wanted.name, self.node.name
            _log.warning("%s is node %s's, and this is %s; %s", *names, _STAYS)
            return False
        return content != self._content


def _state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
