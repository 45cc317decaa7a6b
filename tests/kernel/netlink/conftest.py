"""Two empty namespaces, and a socket in the first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.namespaces import fresh_netns
from trackbed.kernel.netlink.sockets import Socket


@pytest.fixture
def here() -> Iterator[int]:
    """Return the namespace under test."""
    with fresh_netns() as made:
        yield made


@pytest.fixture
def there() -> Iterator[int]:
    """Return a second namespace, in the role of a pod's."""
    with fresh_netns() as made:
        yield made


@pytest.fixture
def sock(here: int) -> Iterator[Socket]:
    """Return a socket in `here`."""
    with Socket(netns=here) as opened:
        yield opened
