"""The order of hosts in a campaign, and the point at which it stops.

    canary ──> batch ──> batch ──> ... ──> done
       └────────┴─────────┴── more than max_failures hosts have failed: no further batch begins

A failed canary stops everything, whatever max_failures is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from trackbed.fleet.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Order:
    """Sizes of the canary and of batches. `batch` is a number of hosts, or a share of all hosts in percent."""

    batch: str = "100%"
    canary: int = 0
    max_failures: int = 0


def split_batches(names: Sequence[str], order: Order) -> list[tuple[str, ...]]:
    """Split host names, in their order, into the canaries (if any) and batches.

    Raises ValueError if `order.batch` is malformed.
    """
    size = compute_batch_size(order.batch, len(names))
    canary, others = tuple(names[: order.canary]), names[order.canary :]
    batches = [tuple(others[start : start + size]) for start in range(0, len(others), size)]
    return [canary, *batches] if canary else batches


def compute_batch_size(batch: str, total: int) -> int:
    """Return the number of hosts in a batch: `12`, or `10%` of `total`, rounded up.

    Raises ValueError if `batch` is malformed.
    """
    number, percent = batch.removesuffix("%"), batch.endswith("%")
    if not number.isascii() or not number.isdigit() or int(number) < 1 or (percent and int(number) > 100):  # noqa: PLR2004 - percent
        raise ValueError(f"--batch {batch}: write a number of hosts (12) or a share of them (10%)")
    return max(1, ceil(total * int(number) / 100)) if percent else int(number)


def run_batches(
    names: Sequence[str], order: Order, run_batch: Callable[[tuple[str, ...]], Sequence[Outcome]]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield each batch and whether it was run. After too many failures, the remaining batches are not run."""
    failures, stopped = 0, False
    for batch_index, batch in enumerate(split_batches(names, order)):
        if stopped:
            yield batch, False
            continue
        batch_failures = sum(outcome.is_failure for outcome in run_batch(batch))
        failures += batch_failures
        stopped = failures > order.max_failures or bool(batch_index == 0 and order.canary and batch_failures)
        yield batch, True
