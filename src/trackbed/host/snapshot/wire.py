"""What is wanted of a host, and what was read there, as JSON has it: for a host that is asked from elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec

from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_BETWEEN = "\0"
"""No word of a command has it in it."""


class _Written(msgspec.Struct, frozen=True):
    """A Snapshot whose commands are one text each."""

    files: dict[str, bytes]
    links: dict[str, str]
    folders: dict[str, tuple[str, ...]]
    outputs: dict[str, Ran]
    unreadable: dict[str, str]


def read_wanted(document: dict[str, Any]) -> Wanted:
    """What is wanted. Raises msgspec.MsgspecError."""
    return msgspec.convert(document, Wanted)


def write_snapshot(found: Snapshot) -> dict[str, Any]:
    """A snapshot as a document; files are base64 text (RFC 4648)."""
    outputs = {_BETWEEN.join(argv): ran for argv, ran in found.outputs.items()}
    written = _Written(dict(found.files), dict(found.links), dict(found.folders), outputs, dict(found.unreadable))
    document: dict[str, Any] = msgspec.to_builtins(written)
    return document


def read_snapshot(document: dict[str, Any]) -> Snapshot:
    """The snapshot of a document. Raises msgspec.MsgspecError."""
    told = msgspec.convert(document, _Written)
    outputs = {tuple(argv.split(_BETWEEN)): ran for argv, ran in told.outputs.items()}
    return Snapshot(told.files, told.links, told.folders, outputs, told.unreadable)
