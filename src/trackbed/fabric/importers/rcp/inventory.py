"""The hosts in RCP's inventory, an INI file of Ansible: groups, with ranges as in hgx-su00-h[00:31]."""

import re
from collections.abc import Iterator
from itertools import islice

from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import decode_text

MAX_HOSTS = 20_000
"""Limit of the hosts of an inventory."""
_RANGE = re.compile(r"\[([0-9]{1,6}):([0-9]{1,6})\]")


def read_hosts(file: NamedFile) -> dict[str, Place]:
    """Return the places of the hosts in group `host`, without those in group `disabled`.

    Raises SpecError if the file is too large or not UTF-8, or has more than MAX_HOSTS.
    """
    groups: dict[str, dict[str, Place]] = {}
    group = ""
    for number, line in enumerate(decode_text(file[1], file[0]).split("\n"), 1):
        words = line.partition("#")[0].partition(";")[0].split()
        if words and words[0].startswith("["):
            group = words[0].strip("[]")
            continue
        place = Place(file[0], number, 1)
        for name in _expand_name(words[0]) if words and group in {"host", "disabled"} else ():
            members = groups.setdefault(group, {})
            members.setdefault(name, place)
            if len(members) > MAX_HOSTS:
                raise SpecError([Problem("too-large", f"more than {MAX_HOSTS} hosts", place=place)])
    disabled = groups.get("disabled", {})
    return {name: place for name, place in groups.get("host", {}).items() if name not in disabled}


def _expand_name(name: str) -> Iterator[str]:
    """Yield the names of a pattern with ranges, MAX_HOSTS + 1 at most."""
    match = _RANGE.search(name)
    if match is None:
        yield name
        return
    numbers = range(int(match[1]), int(match[2]) + 1)
    names = (
        expanded
        for number in numbers
        for expanded in _expand_name(f"{name[: match.start()]}{number:0{len(match[1])}}{name[match.end() :]}")
    )
    yield from islice(names, MAX_HOSTS + 1)
