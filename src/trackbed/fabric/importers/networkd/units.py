"""The .network, .link and .netdev files of a host, each with its drop-ins.

Rules of systemd.network(5): files are read in the order of their names, whatever their directory; of files with the
same name, one in etc/ hides one in run/, which hides one in usr/. An empty file disables those that it hides. Drop-ins
in NAME.d/*.conf are read after NAME, in the order of their names; those of `a-.network.d/` go to every `a-*.network`.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from trackbed.fabric.importers.precedence import choose_files
from trackbed.fabric.importers.sections import Section, merge_sections, read_sections
from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.model.problems import Place, Problem, SpecError

SUFFIXES = (".network", ".link", ".netdev")

MAX_UNITS = 1000
"""Limit of the files of a host; a host with eight ports has 20."""

_PRECEDENCE = ("lib", "run", "etc")


class Unit(NamedTuple):
    """A file and its drop-ins as one list of sections."""

    path: str
    sections: list[Section]
    match: Section
    """All its [Match] sections as one."""

    @property
    def name(self) -> str:
        """Name of the file."""
        return PurePosixPath(self.path).name

    @property
    def place(self) -> Place:
        """Place of its first section."""
        return self.sections[0].place if self.sections else Place(self.path, 1, 1)

    def merge(self, section: str) -> Section:
        """Return the sections of a name as one."""
        return merge_sections(self.sections, section)

    def list_sections(self, section: str) -> list[Section]:
        """Return the sections of a name."""
        return [member for member in self.sections if member.name == section]


def is_file(path: PurePosixPath) -> bool:
    """Return whether a path is a unit or a drop-in of one."""
    return path.suffix in SUFFIXES or _is_drop_in(path)


def read_units(files: Sequence[NamedFile]) -> tuple[list[Unit], list[Problem]]:
    """Return the units in the order in which networkd reads them, and problems of their files.

    Raises SpecError if a file is too large or not UTF-8, or if there are more than MAX_UNITS.
    """
    if len(files) > MAX_UNITS:
        message = f"the host has {len(files)} files; at most {MAX_UNITS} are read"
        raise SpecError([Problem("too-large", message, place=Place(files[0][0], 1, 1))])
    main_files = [file for file in files if PurePosixPath(file[0]).suffix in SUFFIXES]
    drop_ins = [file for file in files if _is_drop_in(PurePosixPath(file[0]))]
    units = []
    problems: list[Problem] = []
    for file in _choose_files(main_files):
        name = PurePosixPath(file[0]).name
        members = [member for member in drop_ins if _is_drop_in_of(PurePosixPath(member[0]).parent.name, name)]
        sections: list[Section] = []
        for member in (file, *_choose_files(members)):
            member_sections, member_problems = read_sections(member, continuation=True)
            sections += member_sections
            problems += member_problems
        units.append(Unit(file[0], sections, merge_sections(sections, "Match")))
    return units, problems


def _is_drop_in(path: PurePosixPath) -> bool:
    folder = path.parent.name
    return path.suffix == ".conf" and folder.endswith(".d") and folder.removesuffix(".d").endswith(SUFFIXES)


def _is_drop_in_of(folder: str, name: str) -> bool:
    """Return whether the drop-ins of a folder belong to a unit: its own, or those of a prefix that ends in `-`."""
    target = PurePosixPath(folder.removesuffix(".d"))
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    return target.suffix == suffix and (
        target.stem == stem or (target.stem.endswith("-") and stem.startswith(target.stem))
    )


def _choose_files(files: Sequence[NamedFile]) -> list[NamedFile]:
    """Return one file of each name that is not empty, in order of the names."""
    return [file for file in choose_files(files, _PRECEDENCE) if file[1].strip()]
