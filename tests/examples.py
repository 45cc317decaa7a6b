"""How many examples a long property test runs: its own few in CI, `TRACKBED_EXAMPLES=N` of them where asked for.

In CI hypothesis makes the same examples at every run (`tests.conftest`, profile `ci`); for others give pytest
`--hypothesis-seed=N`.
"""

import os


def count_examples(default: int) -> int:
    """Return the number of examples to run."""
    return int(os.environ.get("TRACKBED_EXAMPLES", default))
