"""How many examples a long property test runs: its own few in CI, `TRACKBED_EXAMPLES=N` of them where asked for.

In CI hypothesis makes the same examples at every run (`tests.conftest`, profile `ci`); for others give pytest
`--hypothesis-seed=N`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, product
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


def count_examples(default: int) -> int:
    """Return the number of examples to run."""
    return int(os.environ.get("TRACKBED_EXAMPLES", default))


def combine(items: Iterable[Item], values: Sequence[Value]) -> Iterator[tuple[Item, Value]]:
    """Yield each item with one of the values, in turn; with all of them where examples are asked for (nightly)."""
    return product(items, values) if "TRACKBED_EXAMPLES" in os.environ else zip(items, cycle(values), strict=False)
