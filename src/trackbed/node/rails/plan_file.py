"""The file of the node's plan, which `trackbed apply` replaces while the agent runs.

A plan that cannot be read, or that is for another node, is logged and ignored; the agent keeps its current plan.
"""

import logging
from pathlib import Path

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import read_node

_log = logging.getLogger(__name__)

_KEPT = "the current plan is kept until `trackbed apply` writes another"


class PlanFile:
    """The plan that the agent runs with. Raises OSError and SpecError where there is none at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _read_version(path)
        self._content = path.read_bytes()
        self.node: NodePlan = read_node(self._content)

    def has_changed(self) -> bool:
        """Return whether the file holds a different, valid plan. The file is read only after it was replaced."""
        try:
            version = _read_version(self._path)
            if version == self._version:
                return False
            self._version = version
            content = self._path.read_bytes()
            node = self.node if content == self._content else read_node(content)
        except (OSError, SpecError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.problems[0].message
            _log.warning("%s: %s; %s", self._path, reason, _KEPT)
            return False
        if node.name != self.node.name:
            names = self._path, node.name, self.node.name
            _log.warning("%s is node %s's, and this is %s; %s", *names, _KEPT)
            return False
        return content != self._content


def _read_version(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
