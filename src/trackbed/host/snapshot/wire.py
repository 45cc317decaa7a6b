"""What to read of a host, and what was read there, as JSON documents: for a host that is asked from elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

from trackbed.fabric.documents import parse_document, to_document
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_SEPARATOR = "\0"
"""Between the arguments of a command: no argument contains it."""


class _SnapshotDocument(NamedTuple):
    """A Snapshot whose commands are one text each."""

    files: dict[str, bytes]
    links: dict[str, str]
    folders: dict[str, tuple[str, ...]]
    outputs: dict[str, Ran]
    unreadable: dict[str, str]


def read_wanted(document: object) -> Wanted:
    """Parse what to read. Raises DocumentError."""
    return parse_document(document, Wanted)


def write_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Convert a snapshot to a document; files are base64 text (RFC 4648)."""
    outputs = {_SEPARATOR.join(argv): ran for argv, ran in snapshot.outputs.items()}
    values = snapshot.files, snapshot.links, snapshot.folders, outputs, snapshot.unreadable
    document: dict[str, Any] = to_document(_SnapshotDocument._make(values))
    return document


def read_snapshot(document: object) -> Snapshot:
    """Parse the document of a snapshot. Raises DocumentError."""
    files, links, folders, outputs, unreadable = parse_document(document, _SnapshotDocument)
    commands = {tuple(command.split(_SEPARATOR)): ran for command, ran in outputs.items()}
    return Snapshot(files, links, folders, commands, unreadable)
