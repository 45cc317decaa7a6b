"""A host's files, links, folders and program outputs at one moment, as plain values.

Paths are absolute, as seen from the host's root, and are those of the request: `/sys/class/net/rail0/mtu`, not the
target of a link of sysfs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from trackbed.host.machine import Absent, Unreadable
from trackbed.host.runner import ProgramResult

_T = TypeVar("_T")

_WILDCARD = re.compile(r"[*?[]")


@dataclass(frozen=True)
class Wanted:
    """Files, links, folders and commands to read. Patterns match each part of a path by fnmatch(3).

    {netdev} and {pci} stand for the interface and the PCI address of each planned port.
    """

    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Symbolic links whose targets are read: a device's driver, an interface's PCI function."""
    folders: tuple[str, ...] = ()
    """Folders whose entries are listed."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Read-only programs. Each runs without input and with a time limit; a missing program is not an error."""

    def __or__(self, other: Wanted) -> Wanted:
        """Return the union, without duplicates."""
        return Wanted(
            _merge_unique(self.files, other.files),
            _merge_unique(self.links, other.links),
            _merge_unique(self.folders, other.folders),
            _merge_unique(self.commands, other.commands),
        )


@dataclass(frozen=True)
class Snapshot:
    """The files, links, folders and outputs of a host. Absent paths are in none of the maps."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    """Path of a link -> its target, unresolved."""
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path of a folder -> names in it, sorted."""
    outputs: Mapping[tuple[str, ...], ProgramResult] = field(default_factory=dict)
    """Command -> exit status and output; a program that the host lacks has no entry."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Path of a file, link or folder -> why it could not be read, or why a folder that a pattern needs was not listed.

    What is below such a folder may be missing here although the host has it.
    """

    def read(self, path: str) -> str | Absent | Unreadable:
        """Return the text of a file, stripped of surrounding whitespace."""
        content = self.read_bytes(path)
        return content.decode(errors="replace").strip() if isinstance(content, bytes) else content

    def read_bytes(self, path: str) -> bytes | Absent | Unreadable:
        """Return the content of a file."""
        if path in self.files:
            return self.files[path]
        return Unreadable(self.unreadable[path]) if path in self.unreadable else Absent()

    def read_text(self, path: str) -> str | None:
        """Return the text of a file; None if it is absent or unreadable."""
        text = self.read(path)
        return text if isinstance(text, str) else None

    def read_number(self, path: str) -> int | None:
        """Return the number in a file, decimal or 0x...; None if it is absent, unreadable or not a number."""
        try:
            return int(self.read_text(path) or "", 0)
        except ValueError:
            return None

    def glob(self, *patterns: str) -> list[str]:
        """Return the known paths that match, sorted for each pattern; `*` does not match a slash."""
        return [path for pattern in patterns for path in sorted(self._find_matches(pattern))]

    def _find_matches(self, pattern: str) -> set[str]:
        """Return the known paths that match; most of them differ in their beginning."""
        beginning, parts = _WILDCARD.split(pattern, maxsplit=1)[0], pattern.split("/")
        places: Iterable[Iterable[str]] = (self.files, self.links, self.folders, self.unreadable)
        similar = (path for place in places for path in place if path.startswith(beginning))
        return {path for path in similar if _is_match(path.split("/"), parts)}

    def exists(self, path: str) -> bool:
        """Return whether the path, or a path below it, was read."""
        below = f"{path}/"
        places: Iterable[Mapping[str, object]] = (self.files, self.links, self.folders, self.unreadable)
        return any(path in mapping or any(known.startswith(below) for known in mapping) for mapping in places)

    def get_target(self, link: str) -> str | None:
        """Return the last part of a link's target: the name of a driver, a PCI address, an IOMMU group."""
        target = self.links.get(link)
        return target.rstrip("/").rpartition("/")[2] if target is not None else None

    def find_pci(self, netdev: str) -> str | None:
        """Return the PCI address of an interface; None if it has none (veth, bond)."""
        return self.get_target(f"/sys/class/net/{netdev}/device")

    def get_outcome(self, *argv: str) -> ProgramResult | Absent:
        """Return the result of a command; Absent if the host lacks the program or the command was not requested."""
        return self.outputs.get(argv, Absent())

    def get_output(self, *argv: str) -> str | None:
        """Return the output of a command that succeeded; None otherwise."""
        outcome = self.get_outcome(*argv)
        return outcome.output if isinstance(outcome, ProgramResult) and outcome.status == 0 else None


def is_above(path: str, pattern: str) -> bool:
    """Return whether a pattern matches paths below this one."""
    parts, pattern_parts = path.split("/"), pattern.split("/")
    return len(parts) < len(pattern_parts) and _is_match(parts, pattern_parts[: len(parts)])


def _is_match(path: list[str], pattern: list[str]) -> bool:
    return len(path) == len(pattern) and all(map(fnmatchcase, path, pattern))


def _merge_unique(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *second)))
