"""Manifest files to documents: several in a file, lists taken apart, JSON as well as YAML."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.source import YamlDocument, read_yaml
from trackbed.lint.document import Document, document
from trackbed.lint.finding import Hit
from trackbed.lint.tree import Tree, mappings
from trackbed.lint.typed import values


def manifests(raw: bytes, file: str) -> tuple[list[Document], list[Hit]]:
    """Every object of a file, and what is wrong before there is an object; SpecError where it cannot be read."""
    sources = read_yaml(raw, file)
    text = raw.decode("utf-8-sig")
    lines = tuple(text.splitlines())
    found: list[Document] = []
    hits: list[Hit] = []
    for source, value in zip(sources, values(text), strict=True):
        tree = Tree(value, source, lines)
        hits += _twice(tree, source)
        found += _objects(tree, hits)
    return found, hits


def _twice(tree: Tree, source: YamlDocument) -> Iterator[Hit]:
    for problem in source.problems:
        yield Hit("duplicate-key", tree, (), problem.message, place=problem.place)


def _objects(tree: Tree, hits: list[Hit]) -> Iterator[Document]:
    if not isinstance(tree.value, dict) or not tree.get("kind") or not tree.get("apiVersion"):
        hits.append(Hit("not-a-manifest", tree, (), "this has no apiVersion and kind, so it was not checked"))
        return
    if str(tree.get("kind")).endswith("List") and isinstance(tree.get("items"), list):
        for number, _ in mappings(tree.get("items")):
            yield from _objects(tree.under("items", number), hits)
        return
    yield document(tree)
