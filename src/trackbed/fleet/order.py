"""In which order hosts have their turn, and when to stop.

    canary ──> batch ──> batch ──> ... ──> done
       └────────┴─────────┴── more than max_failures hosts have failed: no further batch begins

A failed canary stops everything, whatever max_failures says: that is what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from trackbed.fleet.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Order:
    """How many at a time. `batch` counts hosts, or is a share of all of them in percent."""

    batch: str = "100%"
    canary: int = 0
    max_failures: int = 0


def batches(names: Sequence[str], order: Order) -> list[tuple[str, ...]]:
    """The canaries (if any), then batches; every name once, in its order. ValueError on a batch that is none."""
    size = size_of(order.batch, len(names))
    canary, rest = tuple(names[: order.canary]), names[order.canary :]
    cut = [tuple(rest[at : at + size]) for at in range(0, len(rest), size)]
    return [canary, *cut] if canary else cut


def size_of(batch: str, total: int) -> int:
    """Hosts in a batch: `12`, or `10%` of all, rounded up; at least one."""
    number, percent = batch.removesuffix("%"), batch.endswith("%")
    if not number.isascii() or not number.isdigit() or int(number) < 1 or (percent and int(number) > 100):  # noqa: PLR2004 - percent
        raise ValueError(f"--batch {batch}: write a number of hosts (12) or a share of them (10%)")
    return max(1, ceil(total * int(number) / 100)) if percent else int(number)


def follow(
    names: Sequence[str], order: Order, do: Callable[[tuple[str, ...]], Sequence[Outcome]]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Do batch after batch; yields each with whether it was done. Those after too many failures are not."""
    failed, stopped = 0, False
    for number, batch in enumerate(batches(names, order)):
        if stopped:
            yield batch, False
            continue
        bad = sum(outcome.failed for outcome in do(batch))
        failed += bad
        stopped = failed > order.max_failures or bool(number == 0 and order.canary and bad)
        yield batch, True
