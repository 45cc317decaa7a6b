"""Small strict readers of files that hosts get; each raises ValueError on what its program might read otherwise.

They take less than udev, systemd or sh do, so whatever they read has one meaning.
"""

from __future__ import annotations

import re
import shlex

UdevRule = list[tuple[str, str, str]]
"""Key with its attribute, operator, value."""

_UDEV_PART = re.compile(r'([A-Z_]+(?:\{[A-Za-z0-9_/]+\})?)(==|!=|\+=|:=|=)"((?:[^"\\\n]|\\x[0-9a-f]{2})*)"')
_UDEV_KEYS = frozenset(
    {"ACTION", "ATTR", "ENV", "GOTO", "KERNEL", "KERNELS", "LABEL", "NAME", "PROGRAM", "SUBSYSTEM", "TAG", "TEST"}
)
_SECTION = re.compile(r"\[([A-Za-z0-9]+)\]")
_ENTRY = re.compile(r"([A-Za-z0-9_-]+)=((?:[^\x00-\x1f\\]|\\x[0-9a-f]{2})*)")
_WORD = re.compile(r"[A-Za-z0-9_.:/@%+=,-]+")


def read_lines(text: str) -> list[str]:
    """The lines of a file that are neither empty nor a comment; only tabs and line ends are control characters."""
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\u0085\u2028\u2029]", text) or not text.endswith("\n"):
        raise ValueError("a control character, or no end of the last line")
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def read_udev(text: str) -> list[UdevRule]:
    """The rules of a file of udev(7)."""
    rules = []
    for line in read_lines(text):
        rule = []
        for part in line.split(", "):
            match = _UDEV_PART.fullmatch(part)
            if not match or match[1].partition("{")[0] not in _UDEV_KEYS:
                raise ValueError(f"no part of a udev rule: {part!r}")
            rule.append((match[1], match[2], match[3]))
        rules.append(rule)
    return rules


def read_ini(text: str, keys: dict[str, str]) -> list[tuple[str, str, str]]:
    """Section, key and value of each entry; `keys` has the permitted keys of each permitted section, in words."""
    section, entries = "", []
    for line in read_lines(text):
        if match := _SECTION.fullmatch(line):
            section = match[1]
            if section not in keys:
                raise ValueError(f"unknown section {section!r}")
        elif (match := _ENTRY.fullmatch(line)) and section:
            if re.sub(r"(?<=[a-z])[0-9]+(?=$|_)", "N", match[1]) not in keys[section].split():
                raise ValueError(f"unknown key {match[1]!r} of [{section}]")
            entries.append((section, match[1], match[2]))
        else:
            raise ValueError(f"no entry: {line!r}")
    return entries


def read_commands(lines: list[str]) -> list[list[str]]:
    """The words of each line of a script, none of which a shell would read as anything but a word."""
    commands = []
    for line in lines:
        words = shlex.split(line)
        if not all(map(_WORD.fullmatch, words)) or words != line.split():
            raise ValueError(f"more than words: {line!r}")
        commands.append(words)
    return commands
