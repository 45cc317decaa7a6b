"""Catalogue of causes (`programs/*.yaml`), and the cause of a message.

A message that reaches the API server is nested: the runtime quotes Multus, which quotes a CNI plugin, which quotes its
IPAM plugin. The cause is the part that is quoted last.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import yaml

_CLEAN_UP = ", failed to clean up sandbox container"
"""What docker's shim appends to the error of an attempt: the error of undoing it."""
_MAX_CHARACTERS = 8192
"""How much of a message is searched, from its end: a pod writes its log, and each pattern reads all of it."""


class Cause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cause, as the file of its program describes it. Title, cause and fix may have {GROUP} of a text."""

    id: str
    texts: tuple[str, ...]
    """Regular expressions for messages; empty if the cause follows from the state of the cluster."""
    example: str
    """A message of the program; empty without texts."""
    title: str
    """The cause in one line."""
    cause: str
    fix: str
    waits: bool = False
    """Whether nothing is broken, and the pod only waits for others."""
    follows: bool = False
    """Whether it usually follows from another cause, which is named before it."""
    program: str = ""


class ProgramFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The causes that the messages of a program show."""

    program: str
    source: str
    """Program and version whose source has these messages, and where."""
    executables: tuple[str, ...]
    """Names of the executables that hold the messages."""
    causes: tuple[Cause, ...]


class NamedCause(NamedTuple):
    """The cause of a message, with the names that the message has."""

    id: str
    title: str
    cause: str
    fix: str
    waits: bool
    follows: bool
    names: Mapping[str, str] = MappingProxyType({})
    """What the groups of its text matched."""


@cache
def load_programs() -> tuple[ProgramFile, ...]:
    """Return the files of all programs, by name."""
    entries = files("trackbed.cluster.causes").joinpath("programs").iterdir()
    paths = sorted((entry for entry in entries if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return tuple(msgspec.convert(yaml.load(path.read_bytes(), yaml.CSafeLoader), ProgramFile) for path in paths)


@cache
def load_causes() -> Mapping[str, Cause]:
    """Return all causes by id."""
    return {
        cause.id: msgspec.structs.replace(cause, program=program.program)
        for program in load_programs()
        for cause in program.causes
    }


def diagnose(message: str) -> NamedCause | None:
    """Return the cause of a message; None if no program is known to say this."""
    text = message.partition(_CLEAN_UP)[0][-_MAX_CHARACTERS:]
    matches = [(match, cause) for pattern, cause in _compile_texts() for match in pattern.finditer(text)]
    if not matches:
        return None
    match, cause = max(matches, key=lambda pair: (pair[0].start(), pair[0].end()))
    return fill_cause(cause, match.groupdict())


def fill_cause(cause: Cause, names: Mapping[str, str | None]) -> NamedCause:
    """Return the cause with names in place of its placeholders; a name that is not known stays <name>."""
    values = _Names((name, value) for name, value in names.items() if value)
    title, why, fix = (text.format_map(values) for text in (cause.title, cause.cause, cause.fix))
    return NamedCause(cause.id, title, why, fix, cause.waits, cause.follows, dict(values))


@cache
def _compile_texts() -> tuple[tuple[re.Pattern[str], Cause], ...]:
    return tuple((re.compile(text), cause) for cause in load_causes().values() for text in cause.texts)


class _Names(dict[str, str]):
    """Values by the name of their placeholder; a placeholder without a value is rendered as `<name>`."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"
