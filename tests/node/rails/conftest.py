from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.rails.node import Agent, Node, made


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with made(tmp_path) as node:
        yield node


@pytest.fixture
def agent(node: Node) -> Agent:
    return node.start()
