"""YAML values with their places: mappings, lists, and Scalars."""

from typing import Any

from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.source import Scalar

Tree = dict[str, Any]
"""A YAML mapping whose values are Trees, Scalars, or lists of them."""


def get_tree(tree: Tree, *path: str) -> Tree:
    """Return the mapping at a path; empty if there is none."""
    for key in path:
        value = tree.get(key)
        tree = value if isinstance(value, dict) else {}
    return tree


def get_list(tree: Tree, key: str) -> list[Any]:
    """Return the list of a key; empty if there is none."""
    value = tree.get(key)
    return value if isinstance(value, list) else []


def list_items(tree: Tree, key: str) -> list[Any]:
    """Return the list of a key; a scalar counts as a list of itself."""
    scalar = get_scalar(tree, key)
    return [scalar] if scalar else get_list(tree, key)


def get_trees(tree: Tree, key: str) -> list[Tree]:
    """Return the mappings in the list of a key."""
    return [item for item in get_list(tree, key) if isinstance(item, dict)]


def get_scalar(tree: Tree, key: str) -> Scalar | None:
    """Return the scalar of a key; None without one, or if it is null or empty."""
    value = tree.get(key)
    return value if isinstance(value, Scalar) and value.text else None


def get_text(tree: Tree, key: str) -> str:
    """Return the text of a key; empty without one."""
    scalar = get_scalar(tree, key)
    return (scalar.text if scalar else "") or ""


def is_true(tree: Tree, key: str) -> bool:
    """Return whether the value of a key is one of YAML's words for true."""
    return get_text(tree, key).lower() in {"true", "yes", "on", "y"}


def find_place(value: object) -> Place | None:
    """Return the place of the first scalar in a value."""
    if isinstance(value, Scalar):
        return value.place
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((place for item in values if (place := find_place(item))), None)


def is_text(tree: Tree, key: str, text: str) -> bool:
    """Return whether the value of a key is a text, in any case."""
    return get_text(tree, key).lower() == text
