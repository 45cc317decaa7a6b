"""A source: a tool whose configuration files `trackbed import` reads as a Fabric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from trackbed.fabric.counts import format_count
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.result import HostProblem, ImportResult
from trackbed.fabric.model.problems import Problem

MAX_FILE_BYTES = 1024 * 1024
"""Limit of a file; the configuration of a host with eight ports has 2 KB."""

RAILS_BY_RANGE = "Rails are found by their ranges; management and storage interfaces are left out."
"""What import_hosts does, for the help of sources that describe hosts."""

NamedFile = tuple[str, bytes]
"""The path of a file, for messages, and its content."""

HostFiles = Mapping[str, Sequence[NamedFile]]
"""Files by host."""


class HostReading(NamedTuple):
    """What the files of one host say."""

    interfaces: Sequence[Interface]
    problems: Sequence[Problem]
    host_problems: Sequence[HostProblem]


HostReader = Callable[[str, Sequence[NamedFile]], HostReading]
"""Reads the files of a host, given its name.

Raises SpecError if a file cannot be read, since the other files alone would be misleading.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A tool whose files are imported. Each module of `registry.SOURCES` defines one as SOURCE."""

    noun: str
    """Singular of what its files are called: `netplan file`."""
    layout: str
    """What the directory holds: `HOST.yaml for each host`. For messages and help."""
    about: str
    """Sentences for the help: what becomes of the files."""
    is_file: Callable[[PurePosixPath], bool]
    """Whether a file is of the source, by its path below the directory of its host."""
    import_files: Callable[[HostFiles, str], ImportResult]
    """Returns the Fabric of the files of all hosts, given its name. Raises SpecError with all problems without one."""
    is_site: bool = False
    """Whether the files describe a whole site, so that no directory or file stands for a host."""
    max_file_bytes: int = MAX_FILE_BYTES
    """Limit of a file."""
    host_suffixes: tuple[str, ...] = ()
    """Suffixes of a file that holds all of a host: `.yaml` for DIR/HOST.yaml."""
    wrong_suffixes: Mapping[str, str] | None = None
    """Suffixes of files that the tool ignores although they look like its files, each with a message."""


def count_files(files: HostFiles, noun: str) -> str:
    """Return how many files there are: `4 netplan files`."""
    return format_count(sum(map(len, files.values())), noun)
