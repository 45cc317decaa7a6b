from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.namespaces import fresh_netns
from tests.node.rails.node import Agent, Node, made


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with made(tmp_path) as node:
        yield node


@pytest.fixture
def agent(node: Node) -> Agent:
    return node.start()


@pytest.fixture
def pod_netns() -> Iterator[int]:
    """Return the descriptor of an empty namespace, in the role of a pod's."""
    with fresh_netns() as netns:
        yield netns
