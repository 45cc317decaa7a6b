"""A row for each case and operation: percentiles of its samples."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import percentile
from bench.turns import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds of a case and operation; `ten` is the p50 of ten pods at once together."""

    case: str
    op: str
    pods: int
    p50: float
    p95: float
    max: float
    ten: float | None


def rows(samples: list[Sample]) -> list[Row]:
    """Return a row for each case and operation with samples, in the order of the cases."""
    wanted = dict.fromkeys((sample.case, sample.op) for sample in samples)
    return [row for case, op in wanted for row in _row(samples, case, op)]


def _row(samples: list[Sample], case: str, op: str) -> Iterator[Row]:
    mine = [sample for sample in samples if (sample.case, sample.op) == (case, op)]
    alone = [sample.ms for sample in mine if sample.order == "one after another"]
    ten = [sample.ms for sample in mine if sample.whole]
    if alone:
        p50, p95, most = (percentile(alone, fraction) for fraction in (0.5, 0.95, 1))
        yield Row(case, op, len(alone), p50, p95, most, percentile(ten, 0.5) if ten else None)
