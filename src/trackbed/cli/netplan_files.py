"""The netplan files under a directory, by host: DIR/HOST.yaml, or DIR/HOST/**/*.yaml."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.fabric.importers.netplan.files import MAX_FILE_BYTES
from trackbed.fabric.model.problems import Place, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES = 200_000
"""Limit of files. A directory with more is probably not one of netplan files."""


class TooManyFilesError(Exception):
    """The directory holds more than MAX_FILES files."""


def collect_files(directory: Path) -> tuple[dict[str, list[tuple[str, bytes]]], list[Problem]]:
    """Read all files by host. Unreadable files, links to directories, devices and pipes are returned as problems.

    Raises OSError if `directory` itself cannot be listed, TooManyFilesError beyond MAX_FILES.
    """
    hosts: dict[str, list[tuple[str, bytes]]] = {}
    problems: list[Problem] = []
    for count, (host, path) in enumerate(_find_files(directory, problems), start=1):
        if count > MAX_FILES:
            raise TooManyFilesError(
                f"{directory} holds more than {MAX_FILES} files; name the directory of the netplan files"
            )
        try:
            hosts.setdefault(host, []).append((str(path), _read_content(path)))
        except OSError as error:
            problems.append(
                _build_problem("unreadable-file", f"cannot read this file: {error.strerror or error}", path)
            )
    return hosts, problems


def _find_files(directory: Path, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    entries = sorted(directory.iterdir())
    folders = {path.name for path in entries if path.is_dir()}
    for path in entries:
        if path.name in folders:
            yield from ((path.name, inner) for inner in _find_host_files(path, problems))
        elif path.suffix == ".yml":
            problems.append(
                _build_problem("not-netplan", "netplan reads files ending in .yaml only; rename this one", path)
            )
        elif path.suffix == ".yaml" and path.stem in folders:
            message = f"host {path.stem!r} has a directory too, and that is read; remove one of them"
            problems.append(_build_problem("two-layouts", message, path, "error"))
        elif path.suffix == ".yaml":
            yield path.stem, path


def _find_host_files(directory: Path, problems: list[Problem]) -> Iterator[Path]:
    def report_error(error: OSError) -> None:
        path = Path(error.filename or directory)
        problems.append(_build_problem("unreadable-file", f"cannot list this directory: {error.strerror}", path))

    if directory.is_symlink():
        problems.append(_build_problem("unreadable-file", "links to directories are not followed", directory))
        return
    for folder, folders, names in os.walk(directory, onerror=report_error):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".yaml"))


def _read_content(path: Path) -> bytes:
    """Return the content of a regular file, at most MAX_FILE_BYTES + 1 bytes, without waiting for a pipe."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(None, "it is not a regular file")
        return stream.read(MAX_FILE_BYTES + 1)


def _build_problem(code: str, message: str, path: Path, severity: str = "warning") -> Problem:
    return Problem(code, message, place=Place(str(path), 1, 1), severity=severity)
