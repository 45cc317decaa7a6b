"""Memory, descriptors and threads of the programs under test, read from /proc while they run."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class UsageSample:
    """The resources of a program at one moment."""

    seconds: float
    """Since the soak's first pod."""
    pss_kib: int
    """Proportional set size: private memory, and its share of memory that others use too (proc(5), smaps)."""
    private_kib: int
    descriptors: int
    threads: int


def read_usage(pid: int, seconds: float) -> UsageSample:
    """Return the resources of a process. Raises OSError if it has ended."""
    process = Path(f"/proc/{pid}")
    fields = {}
    for line in (process / "smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, _, amount = line.partition(":")
        fields[name] = int(amount.split()[0])
    if "Pss" not in fields:
        raise ProcessLookupError(f"process {pid} has ended")
    private = fields["Private_Clean"] + fields["Private_Dirty"]
    counts = (len(list((process / folder).iterdir())) for folder in ("fd", "task"))
    return UsageSample(seconds, fields["Pss"], private, *counts)


def compare_memory(samples: list[UsageSample], seconds: float) -> tuple[float, float] | None:
    """Return the median PSS, in MiB, of the second and of the last sixth of a soak of `seconds`.

    Of an hour these are minutes 10 to 20 and 50 to 60. None if a sixth has no sample.
    """
    medians = []
    for first in (1 / 6, 5 / 6):
        values = [item.pss_kib for item in samples if first <= item.seconds / seconds < first + 1 / 6]
        if not values:
            return None
        medians.append(median(values) / 1024)
    return medians[0], medians[1]
