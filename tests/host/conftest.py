from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.places import Host, host


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as made:
        yield made
