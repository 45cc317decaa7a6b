"""A machine in one archive that may leave its site: read, masked, redacted, limited, written.

Machine ── read_snapshot ──> mask_secrets ──> build_members ──> Identity.redact_* ──> limit ──> archive
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO, TypeVar

import msgspec

from trackbed.host.machine import Machine
from trackbed.host.snapshot.archive import Members, build_members, write_archive
from trackbed.host.snapshot.identity import Identity
from trackbed.host.snapshot.pseudonyms import Pseudonyms
from trackbed.host.snapshot.recorded import Output, Record
from trackbed.host.snapshot.secrets import is_forbidden, mask_secrets
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import read_snapshot

_T = TypeVar("_T")

MAX_BYTES = 64 << 20
"""Size limit of all files together, before compression."""
MAX_OUTPUT_BYTES = 1 << 20
"""Size limit of the output of one program; the middle of a longer one is left out."""

_FORBIDDEN = "it never leaves a machine"
_REVEALING = "a name, address or serial number of this machine was found in it"
_UNLISTED = "a folder above it could not be listed"
_TOO_LARGE = f"the archive would exceed {MAX_BYTES >> 20} MiB"


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """Number of files and outputs in an archive, the files that were masked, and what was left out."""

    files: int
    programs: int
    masked: tuple[str, ...]
    """Files in which a secret or a serial number was masked."""
    withheld: Mapping[str, str]
    """Requested files and programs that are not in the archive -> the reason."""


def capture(machine: Machine, wanted: Wanted, stream: BinaryIO, key: bytes | None = None) -> CaptureResult:
    """Write the requested files and outputs of a machine as a compressed tar archive, without secrets.

    With a key, names, addresses and serial numbers are replaced by pseudonyms that depend on it.
    """
    snapshot, withheld = _drop_below_unreadable(read_snapshot(machine, wanted))
    contents = mask_snapshot(snapshot).files
    masked = tuple(sorted(path for path, raw in contents.items() if raw != snapshot.files[path]))
    withheld |= dict.fromkeys(sorted(snapshot.files.keys() - contents.keys()), _FORBIDDEN)
    members = build_members(machine, snapshot, dict(contents))
    outputs = [_mask_output(argv, ran.status, ran.output) for argv, ran in snapshot.outputs.items()]
    if key is not None:
        identity = Identity(snapshot, Pseudonyms(key))
        masked = tuple(map(identity.redact_path, masked))
        members = _redact_members(members, identity, withheld)
        outputs = _redact_outputs(outputs, identity, withheld)
    _drop_excess(members, withheld)
    record = Record(tuple(outputs), masked, withheld, identified=key is None)
    write_archive(stream, members, msgspec.json.encode(record))
    files = sum(isinstance(content, bytes) for content in members.values())
    return CaptureResult(files, len(outputs), masked, withheld)


def _drop_below_unreadable(snapshot: Snapshot) -> tuple[Snapshot, dict[str, str]]:
    """Return a snapshot without what is below an unreadable folder, and these paths with the reason.

    In an archive such a folder is a link to itself, so that it is unreadable there, too.
    """
    if not snapshot.unreadable:
        return snapshot, {}
    dropped = {
        path: _UNLISTED
        for path in (*snapshot.files, *snapshot.links, *snapshot.folders, *snapshot.unreadable)
        if any(str(folder) in snapshot.unreadable for folder in PurePosixPath(path).parents)
    }

    def keep(values: Mapping[str, _T]) -> dict[str, _T]:
        return {path: value for path, value in values.items() if path not in dropped}

    kept = Snapshot(
        keep(snapshot.files), keep(snapshot.links), keep(snapshot.folders), snapshot.outputs, keep(snapshot.unreadable)
    )
    return kept, dropped


def mask_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it would be captured: secrets masked, forbidden files removed."""
    files = {path: mask_secrets(path, raw) for path, raw in snapshot.files.items() if not is_forbidden(path)}
    return replace(snapshot, files=files)


def _mask_output(argv: tuple[str, ...], status: int, output: str) -> Output:
    raw = output.encode()
    if len(raw) > MAX_OUTPUT_BYTES:
        half = MAX_OUTPUT_BYTES // 2
        raw = raw[:half] + b"\n... %d bytes left out ...\n" % (len(raw) - 2 * half) + raw[-half:]
    return Output(argv, status, mask_secrets("", raw).decode(errors="replace"))


def _redact_members(members: Members, identity: Identity, withheld: dict[str, str]) -> Members:
    """Return members without identity; those in which some of it remains are left out and named in `withheld`."""
    redacted: Members = {}
    for path, content in members.items():
        place = identity.redact_path(path)
        if isinstance(content, bytes):
            raw = identity.redact_file(f"/{path}", content)
            if identity.reveals(raw):
                withheld[f"/{place}"] = _REVEALING
            else:
                redacted[place] = raw
        elif content == _get_name(path):  # an unreadable file is a link to itself
            redacted[place] = _get_name(place)
        else:
            redacted[place] = content if content is None else identity.redact_path(content)
    return redacted


def _get_name(path: str) -> str:
    return path.rpartition("/")[2]


def _redact_outputs(outputs: list[Output], identity: Identity, withheld: dict[str, str]) -> list[Output]:
    """Return outputs without identity; those in which some of it remains are left out and named in `withheld`."""
    redacted = []
    for output in outputs:
        argv, text = tuple(map(identity.redact_path, output.argv)), identity.redact_text(output.output)
        if identity.reveals(text.encode(errors="surrogateescape")):
            withheld[" ".join(argv)] = _REVEALING
        else:
            redacted.append(Output(argv, output.status, text))
    return redacted


def _drop_excess(members: Members, withheld: dict[str, str]) -> None:
    """Remove the largest files until all together are within the limit."""
    sizes = {path: len(content) for path, content in members.items() if isinstance(content, bytes)}
    total = sum(sizes.values())
    for path in sorted(sizes, key=lambda place: sizes[place], reverse=True):
        if total <= MAX_BYTES:
            return
        total -= sizes[path]
        withheld[f"/{path}"] = _TOO_LARGE
        del members[path]
