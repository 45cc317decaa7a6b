"""A client of the API server of the tests, without the CRDs of others: nothing here needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    """The API server as its administrator sees it."""
    with connect(str(api_server)) as blocking_client:
        yield blocking_client
