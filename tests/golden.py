"""Golden files: texts that a person has reviewed. With --rewrite, tests write them; review the difference then."""

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden files anew; review the difference")


@pytest.fixture(scope="session")
def rewrites_goldens(pytestconfig: pytest.Config) -> bool:
    """Return whether golden files are to be written instead of compared."""
    return bool(pytestconfig.getoption("--rewrite"))


@pytest.fixture(scope="session")
def check_golden(rewrites_goldens: bool) -> Callable[[Path, str], None]:
    """Return a function that compares a golden file with a text, or writes it with --rewrite."""

    def check(path: Path, text: str) -> None:
        if rewrites_goldens:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), "review the difference; `scripts/test --rewrite` writes golden files"

    return check
