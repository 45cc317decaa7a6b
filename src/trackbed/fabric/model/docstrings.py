"""Docstrings behind the attributes of models and structs."""

import ast
import inspect
import itertools
import re
import textwrap


def read_attribute_docstrings(model: type) -> dict[str, str]:
    """Return the docstring behind each attribute of a model or struct, inherited ones included."""
    docstrings: dict[str, str] = {}
    for base in reversed([base for base in model.__mro__ if base.__module__.startswith("trackbed.")]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class is one class definition
        for field, behind in itertools.pairwise(body.body):
            match field, behind:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    docstrings[name] = inspect.cleandoc(text)
    return docstrings


def read_section(model: type) -> tuple[str, str]:
    """Return the docstring of a model as one line, and the YAML below its `Example:`, which holds all of its fields."""
    text, _, example = inspect.cleandoc(model.__doc__ or "").partition("\n\nExample:\n")
    return join_lines(text), textwrap.dedent(example)


def split_keys(example: str) -> dict[str, str]:
    """Return the lines of each key of a mapping in YAML's block style."""
    parts = re.split(r"^(?=\w)", example, flags=re.MULTILINE)
    return {part.partition(":")[0]: part.rstrip() for part in parts if part}


def join_lines(text: str) -> str:
    """Return a docstring as one line."""
    return re.sub(r"\s*\n\s*", " ", text)
