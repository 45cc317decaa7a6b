"""The file of the node's plan, which `trackbed apply` replaces while the agent runs.

A plan that cannot be read, or that is for another node, is logged and ignored; the agent keeps its current plan.
"""

import logging
from pathlib import Path

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import decode_node
from trackbed.fabric.plan.plan import NodePlan

_log = logging.getLogger(__name__)

_KEPT = "the current plan is kept until `trackbed apply` writes another"


_FileVersion = tuple[int, int, int]
"""Inode, modification time in nanoseconds, and size."""


class PlanFile:
    """The file of the plan that the agent runs with. Raises OSError or SpecError if it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _read_file_version(path)
        self._content = path.read_bytes()
        self.node: NodePlan = decode_node(self._content)

    def has_changed(self) -> bool:
        """Return whether the file now has a different, valid plan. The file is read only after it was replaced."""
        try:
            version = _read_file_version(self._path)
            if version == self._version:
                return False
            self._version = version
            content = self._path.read_bytes()
            node = self.node if content == self._content else decode_node(content)
        except (OSError, SpecError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.problems[0].message
            _log.warning("%s: %s; %s", self._path, reason, _KEPT)
            return False
        if node.name != self.node.name:
            names = self._path, node.name, self.node.name
            _log.warning("%s is node %s's, and this is %s; %s", *names, _KEPT)
            return False
        return content != self._content


def _read_file_version(path: Path) -> _FileVersion:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
