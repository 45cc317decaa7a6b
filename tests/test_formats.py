"""What 0.1 wrote is read by every later version, and a format of a later version is refused, never guessed at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from trackbed.fabric.model.load import load_lock
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.host.transaction.record import Record, load_record
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.store import Store

WRITTEN = Path(__file__).parent / "formats" / "0.1"


def test_the_lock_of_0_1_is_read() -> None:
    lock = load_lock((WRITTEN / "trackbed.lock.yaml").read_bytes(), "lock")
    assert (lock.fabric, lock.nodes) == ("train", {"gpu-1": 0, "gpu-0": 3})


def test_the_plan_of_a_node_of_0_1_is_read() -> None:
    raw = (WRITTEN / "node.json").read_bytes()
    assert json.loads(encode_node(decode_node(raw))) == json.loads(raw)


def test_the_undo_record_of_0_1_is_read() -> None:
    files: dict[str, bytes | None] = {"/etc/a": b"before\n", "/etc/b": None}
    commands = (("systemctl", "daemon-reload"),)
    assert load_record(WRITTEN) == Record(
        "6f1a3c0e-boot", 4026531840, {}, files, {"/etc/a": 0o644}, commands, finished=True
    )


def test_the_journal_of_0_1_is_read(tmp_path: Path) -> None:
    """An agent that is upgraded while pods hold rails knows every one of them."""
    shutil.copy(WRITTEN / "journal", tmp_path)
    store = Store(Journal(tmp_path))
    held = [(entry.attachment.key, entry.done, len(entry.attachment.ports)) for entry in store.list_entries()]
    assert held == [(("c0", "net1"), True, 2), (("c1", "net1"), False, 2)]


def test_a_lock_of_a_later_version_is_refused() -> None:
    raw = (WRITTEN / "trackbed.lock.yaml").read_bytes().replace(b"v1alpha1", b"v9")
    with pytest.raises(SpecError, match="apiVersion"):
        load_lock(raw, "lock")


def test_a_node_plan_of_a_later_format_is_refused() -> None:
    document = json.loads((WRITTEN / "node.json").read_text()) | {"format": 2}
    with pytest.raises(SpecError, match="it has format 2, this version of Trackbed reads format 1"):
        decode_node(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": 2}, "it has format 2, this version of Trackbed reads format 1"), ({"kept": {"later": {}}}, "later")],
    ids=["format", "kind of setting"],
)
def test_an_undo_record_of_a_later_version_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    document = json.loads((WRITTEN / "undo.json").read_text()) | change
    (tmp_path / "undo.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        load_record(tmp_path)
