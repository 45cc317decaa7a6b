from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return a stack whose contexts are exited after the test."""
    with ExitStack() as entered:
        yield entered
