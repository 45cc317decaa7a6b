"""Handlers that meet another call for the same attachment."""

from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

from tests.node.rails.node import planned
from trackbed.node.rails.attacher import Attacher
from trackbed.node.rails.attachment import Attachment
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.store import Store, StoreEntry


class _DeletingStore(Store):
    """A store of which every attachment is deleted by another call as soon as it has been listed."""

    def list_entries(self) -> tuple[StoreEntry, ...]:
        entries = super().list_entries()
        for entry in entries:
            self.release(entry.attachment.key)
        return entries


def test_garbage_collection_skips_an_attachment_that_a_delete_has_removed(tmp_path: Path) -> None:
    store = _DeletingStore(Journal(tmp_path))
    attachment = Attachment("c1", "net1", "rails", "move", "/netns/c1", 1, "boot", ())
    store.hold_devices(attachment, lambda _: {}, lambda _: ())
    store.mark_done(attachment.key)
    attacher = Mock(spec=Attacher)
    handlers = Handlers(planned(), store, Conflicts(), cast("Any", attacher))
    config: dict[str, Any] = {"cni.dev/valid-attachments": []}
    handlers.handle(CniRequest("GC", "1.1.0", ("", ""), "", "rails", config), Phases(lambda: 0.0))
    attacher.remove.assert_not_called()
    store.close()
