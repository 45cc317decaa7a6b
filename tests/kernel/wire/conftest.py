from collections.abc import Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is entered here is left when the test ends, however it ends."""
    with ExitStack() as entered:
        yield entered
