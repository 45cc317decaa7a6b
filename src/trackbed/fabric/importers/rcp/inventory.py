"""The hosts in RCP's inventory, an INI file of Ansible: groups, with ranges as in hgx-su00-h[00:31]."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from math import prod

from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import decode_text

MAX_HOSTS = 20_000
"""Limit of the hosts of an inventory."""
_MOST_RANGES = 8
"""Limit of the ranges in a name."""
_RANGE = re.compile(r"\[([0-9]{1,6}):([0-9]{1,6})\]")


def read_hosts(file: NamedFile) -> dict[str, Place]:
    """Return the places of the hosts in group `host`, without those in group `disabled`.

    Raises SpecError if the file is too large or not UTF-8, has more than MAX_HOSTS, or more than 8 ranges in a name.
    """
    groups: dict[str, dict[str, Place]] = {}
    group = ""
    for number, line in enumerate(decode_text(file[1], file[0]).split("\n"), 1):
        words = line.partition("#")[0].partition(";")[0].split()
        if words and words[0].startswith("["):
            group = words[0].strip("[]")
            continue
        place = Place(file[0], number, 1)
        names = _expand_name(words[0]) if words and group in {"host", "disabled"} else ()
        if words and len(_RANGE.findall(words[0])) > _MOST_RANGES:
            raise SpecError([Problem("too-large", f"a name of more than {_MOST_RANGES} ranges", place=place)])
        members = groups.setdefault(group, {})
        members |= {name: place for name in names if name not in members}
        if len(members) > MAX_HOSTS:
            raise SpecError([Problem("too-large", f"more than {MAX_HOSTS} hosts", place=place)])
    disabled = groups.get("disabled", {})
    return {name: place for name, place in groups.get("host", {}).items() if name not in disabled}


def _expand_name(name: str) -> Iterator[str]:
    """Yield the names of a pattern with ranges, MAX_HOSTS + 1 at most."""
    texts = _RANGE.split(name)[::3]
    ends = _RANGE.findall(name)
    numbers = [range(int(first), int(last) + 1)[: MAX_HOSTS + 1] for first, last in ends]
    if not all(numbers):
        return
    widths = [len(first) for first, _ in ends]
    for chosen in _iter_products(numbers):
        written = (f"{number:0{width}}" for number, width in zip(chosen, widths, strict=True))
        yield "".join(text + number for text, number in zip_longest(texts, written, fillvalue=""))


def _iter_products(numbers: Sequence[range]) -> Iterator[Sequence[int]]:
    """Yield the combinations of ranges that are not empty, the last one first, MAX_HOSTS + 1 at most."""
    total = min(prod(map(len, numbers)), MAX_HOSTS + 1)
    for index in range(total):
        remainder, chosen = index, []
        for choices in reversed(numbers):
            remainder, position = divmod(remainder, len(choices))
            chosen.append(choices[position])
        yield chosen[::-1]
