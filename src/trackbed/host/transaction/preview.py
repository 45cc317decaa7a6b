"""What was shown of a machine before an apply: apply makes what was confirmed, and nothing else.

    compare ──> Preview ──> shown and confirmed ──> apply compares again ──> equal: done, else StalePreviewError

The machine is compared again because its state may have changed while the user read, and the record for undo must have
the state that is changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trackbed.host.change import Change, Comparison
from trackbed.host.transaction.files import FileChange


class Preview(NamedTuple):
    """The differences as they were shown (without operations), and the network's files to write or delete."""

    changes: frozenset[Change]
    files: frozenset[FileChange]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not self.changes and not self.files

    def is_part_of(self, shown: Preview) -> bool:
        """Return whether everything of this preview is in `shown`."""
        return self.changes <= shown.changes and self.files <= shown.files


def build_preview(comparison: Comparison, files: Iterable[FileChange]) -> Preview:
    """Return what a user sees of a comparison; the kernel's messages, which may have ages in them, are left out."""
    return Preview(frozenset(change._replace(operations=()) for change in comparison.changes), frozenset(files))
