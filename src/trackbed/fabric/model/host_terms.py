"""How often a range of hosts names each of them, which ClusterShell does not tell."""

import re
from collections import Counter
from collections.abc import Iterator

_TERMS = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]?)+")
"""Text between commas outside of brackets; read in one pass, since a range may have 128 KiB."""
_PARTS = re.compile(r"([^\[\]]*)\[([^\[\]]*)\]")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+)(?:/([0-9]+))?)?")


def iter_terms(hosts: str) -> Iterator[str]:
    """Yield the terms of a range: `gpu-[0-3]` and `gpu-7` of `gpu-[0-3],gpu-7`."""
    return (term.strip() for term in _TERMS.findall(hosts) if term.strip())


def count_names(hosts: str) -> Counter[str]:
    """Return how often a valid range names each host; its hosts are as few as `nodes.MAX_NODES`."""
    return Counter(name for term in iter_terms(hosts) for name in _iter_names(term))


def _iter_names(term: str) -> Iterator[str]:
    """Yield the names of a term, with repetitions."""
    names, end = [""], 0
    for part in _PARTS.finditer(term):
        numbers = list(_iter_numbers(part[2]))
        names = [name + part[1] + number for name in names for number in numbers]
        end = part.end()
    return (name + term[end:] for name in names)


def _iter_numbers(spans: str) -> Iterator[str]:
    for span in filter(None, map(_SPAN.fullmatch, spans.split(","))):
        first, last, step = span[1], span[2] or span[1], int(span[3] or 1)
        yield from (f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1, step))
