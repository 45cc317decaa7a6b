"""An occurrence of a fault between nodes: its ends, and the evidence from all of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import FaultEnd

_Item = TypeVar("_Item")


class Occurrence(NamedTuple):
    """One fault between nodes. The first end is the one to fix, or to look at first."""

    ends: tuple[FaultEnd, ...]
    evidence: str


class Holder(NamedTuple):
    """The holder of a value that must be unique: where it is, and its description, such as `n1 VF 0`."""

    end: FaultEnd
    label: str


def select_repeated(values: Iterable[tuple[str, _Item]]) -> list[tuple[str, _Item]]:
    """Return the values that occur more than once, with their items: few of the hundred thousand of a large fabric."""
    pairs = list(values)
    counts = Counter(value for value, _ in pairs)
    return [pair for pair in pairs if counts[pair[0]] > 1] if len(counts) < len(pairs) else []


def find_shared(holders: Iterable[tuple[str, Holder]]) -> Iterator[Occurrence]:
    """Yield an occurrence for each set of holders that share values; `holders` has (value, holder)."""
    owners: dict[str, list[Holder]] = {}
    for value, holder in holders:
        owners.setdefault(value, []).append(holder)
    values: dict[tuple[FaultEnd, ...], list[str]] = {}
    for value, places in owners.items():
        if len(places) > 1:
            values.setdefault(tuple(dict.fromkeys(holder.end for holder in places)), []).append(value)
    for ends, shared in values.items():
        yield Occurrence(ends, _describe_shared(shared, owners))


def _describe_shared(shared: list[str], owners: Mapping[str, list[Holder]]) -> str:
    labels = summarize_items([holder.label for holder in owners[shared[0]]], 8)
    others = len(shared) - 1
    return f"{shared[0]} is at {labels}" + (f"; so {'is' if others == 1 else 'are'} {others} more" if others else "")
