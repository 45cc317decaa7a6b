"""The files of a source below a directory, by host: DIR/HOST.yaml, or files in DIR/HOST/**."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from trackbed.fabric.model.problems import Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.importers.source import Source

MAX_FILES = 200_000
"""Limit of files. A directory with more is probably not one of configuration files."""


class TooManyFilesError(Exception):
    """The directory holds more than MAX_FILES files."""


def collect_files(directory: Path, source: Source) -> tuple[dict[str, list[tuple[str, bytes]]], list[Problem]]:
    """Read all files of a source by host.

    Unreadable files, links to directories, devices and pipes are returned as problems.
    Raises OSError if `directory` itself cannot be listed, TooManyFilesError beyond MAX_FILES.
    """
    hosts: dict[str, list[tuple[str, bytes]]] = {}
    problems: list[Problem] = []
    for count, (host, path) in enumerate(_iter_files(directory, source, problems), start=1):
        if count > MAX_FILES:
            raise TooManyFilesError(
                f"{directory} holds more than {MAX_FILES} files; name the directory of the {source.noun}s"
            )
        try:
            hosts.setdefault(host, []).append((str(path), _read_content(path, source.max_file_bytes)))
        except OSError as error:
            problems.append(
                _build_problem("unreadable-file", f"cannot read this file: {error.strerror or error}", path)
            )
    return hosts, problems


def _iter_files(directory: Path, source: Source, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    if source.is_site:
        yield from (("", path) for path in _iter_host_files(directory, source, problems))
        return
    entries = sorted(directory.iterdir())
    folders = {path.name for path in entries if path.is_dir()}
    wrong_suffixes = source.wrong_suffixes or {}
    for path in entries:
        if path.name in folders:
            yield from ((path.name, inner) for inner in _iter_host_files(path, source, problems))
        elif path.suffix in wrong_suffixes:
            problems.append(_build_problem("wrong-suffix", wrong_suffixes[path.suffix], path))
        elif path.suffix in source.host_suffixes and path.stem in folders:
            message = f"host {path.stem!r} has a directory too, and that is read; remove one of them"
            problems.append(_build_problem("two-layouts", message, path, "error"))
        elif path.suffix in source.host_suffixes:
            yield path.stem, path


def _iter_host_files(directory: Path, source: Source, problems: list[Problem]) -> Iterator[Path]:
    def report_error(error: OSError) -> None:
        path = Path(error.filename or directory)
        problems.append(_build_problem("unreadable-file", f"cannot list this directory: {error.strerror}", path))

    if directory.is_symlink():
        problems.append(_build_problem("unreadable-file", "links to directories are not followed", directory))
        return
    for folder, folders, names in os.walk(directory, onerror=report_error):
        folders.sort()
        for path in (Path(folder, name) for name in sorted(names)):
            if source.is_file(PurePosixPath(path.relative_to(directory))):
                yield path


def _read_content(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file, at most `max_bytes` + 1, without waiting for a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(None, "it is not a regular file")
        return stream.read(max_bytes + 1)


def _build_problem(code: str, message: str, path: Path, severity: str = "warning") -> Problem:
    return Problem(code, message, place=Place(str(path), 1, 1), severity=severity)
