"""Requests for snapshots of remote hosts, and the snapshots, as JSON documents."""

from __future__ import annotations

from typing import Any, NamedTuple

from trackbed.fabric.documents import parse_document, to_document
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import MAX_FILE_BYTES

_ARGUMENT_SEPARATOR = "\0"
"""Separates the arguments of a command; no argument contains it."""


class _SnapshotDocument(NamedTuple):
    """A Snapshot in which each command is one string."""

    files: dict[str, bytes]
    links: dict[str, str]
    folders: dict[str, tuple[str, ...]]
    outputs: dict[str, ProgramResult]
    unreadable: dict[str, str]


def parse_wanted(document: object) -> Wanted:
    """Parse a request for a snapshot. Raises DocumentError."""
    return parse_document(document, Wanted)


def build_snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Convert a snapshot to a JSON document; files become base64 text (RFC 4648)."""
    outputs = {_ARGUMENT_SEPARATOR.join(argv): ran for argv, ran in snapshot.outputs.items()}
    values = snapshot.files, snapshot.links, snapshot.folders, outputs, snapshot.unreadable
    document: dict[str, Any] = to_document(_SnapshotDocument._make(values))
    return document


def parse_snapshot(document: object) -> Snapshot:
    """Parse the JSON document of a snapshot; of a file no more is taken than a host sends. Raises DocumentError."""
    files, links, folders, outputs, unreadable = parse_document(document, _SnapshotDocument)
    commands = {tuple(command.split(_ARGUMENT_SEPARATOR)): ran for command, ran in outputs.items()}
    taken = {path: content[:MAX_FILE_BYTES] for path, content in files.items()}
    return Snapshot(taken, links, folders, commands, unreadable)
