"""What is imported is declared, what is declared is imported, and each has its reason."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from trackbed import __version__

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {"trackbed": ROOT, "trackbed-lab": ROOT / "packages" / "trackbed-lab"}
TYPES_ONLY = {"_typeshed"}
"""What type checkers alone have."""
PROJECTS = {name: tomllib.loads((place / "pyproject.toml").read_text()) for name, place in DISTRIBUTIONS.items()}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_declares_what_it_imports_and_nothing_else(name: str) -> None:
    providers = {**packages_distributions(), "trackbed": ["trackbed"]}
    modules = {
        module
        for path in (DISTRIBUTIONS[name] / "src").glob("**/*.py")
        for module in _list_imports(path)
        if module not in sys.stdlib_module_names | TYPES_ONLY and module != name.replace("-", "_")
    }
    declared = set(_list_requirements(PROJECTS[name]["project"]["dependencies"]))
    provided = {module: {_normalize(provider) for provider in providers[module]} & declared for module in modules}
    assert [module for module, names in provided.items() if not names] == []
    assert declared - set().union(*provided.values()) == set()


def test_the_lab_asks_for_the_version_of_trackbed_that_it_is_released_with() -> None:
    assert f"trackbed=={__version__}" in PROJECTS["trackbed-lab"]["project"]["dependencies"]


def test_every_dependency_has_its_reason() -> None:
    declared = [project["project"]["dependencies"] for project in PROJECTS.values()]
    declared += PROJECTS["trackbed"]["dependency-groups"].values()
    wanted = {name for requirements in declared for name in _list_requirements(requirements)} - {"trackbed"}
    packages = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    assert set(packages) == wanted


def _list_imports(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in plain | froms}


def _list_requirements(requirements: list[str]) -> list[str]:
    return [_normalize(re.split(r"[<>=~! \[;]", requirement)[0]) for requirement in requirements]


def _normalize(name: str) -> str:
    return name.lower().replace("_", "-")
