"""Which of several files with the same name a tool reads."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from trackbed.fabric.importers.source import NamedFile


def choose_files(files: Iterable[NamedFile], folders: Sequence[str]) -> list[NamedFile]:
    """Return one file of each name, in order of the names: the one in the last of `folders` that holds one."""
    ordered_files = sorted(files, key=lambda file: (_get_precedence(file[0], folders), file[0]))
    by_name = {PurePosixPath(file[0]).name: file for file in ordered_files}
    return [file for _, file in sorted(by_name.items())]


def _get_precedence(path: str, folders: Sequence[str]) -> int:
    parts = PurePosixPath(path).parent.parts
    return max((rank for rank, folder in enumerate(folders) if folder in parts), default=-1)
