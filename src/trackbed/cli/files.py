"""Functions with which commands write files; an error ends the command with status 2."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.options import refuse
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_PREFIX_CHARACTERS = 40


class OutputFile(NamedTuple):
    """A file that a command writes."""

    path: str
    """Path below a folder."""
    chunks: Iterable[str | bytes]
    permissions: int = 0o644


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically; its permissions and a symbolic link to it are kept. A new file gets 0644."""
    from trackbed.host.atomic import replace

    try:
        target = path.resolve()
        replace(target, content, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644)
    except OSError as error:
        refuse(f"cannot write {path}: {error.strerror}")


def write_files(folder: Path, files: Iterable[OutputFile]) -> None:
    """Write files below a folder, each atomically, and print their number."""
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            _write_file(folder / file.path.lstrip("/"), file)
            count += 1
    except OSError as error:
        refuse(f"cannot write {error.filename or folder}: {error.strerror}")
    click.echo(f"wrote {format_count(count, 'file')} below {folder}")


def _write_file(path: Path, file: OutputFile) -> None:
    from tempfile import mkstemp

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = mkstemp(prefix=f".{path.name[:_MAX_PREFIX_CHARACTERS]}.", dir=path.parent)
    temporary = Path(name)
    try:
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - of a descriptor
            os.fchmod(descriptor, file.permissions)
            stream.writelines(chunk.encode() if isinstance(chunk, str) else chunk for chunk in file.chunks)
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
