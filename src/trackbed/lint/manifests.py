"""Manifest files, YAML or JSON, as documents. Each item of a List is a document."""

from collections.abc import Iterator

from trackbed.fabric.model.source import YamlDocument, read_yaml
from trackbed.lint.document import Document, to_document
from trackbed.lint.finding import Breach
from trackbed.lint.tree import Tree, list_mappings
from trackbed.lint.typed import read_values


def read_manifests(raw: bytes, file: str) -> tuple[list[Document], list[Breach]]:
    """Return the objects of a file, and the breaches found while reading. Raises SpecError if it cannot be read."""
    sources = read_yaml(raw, file)
    text = raw.decode("utf-8-sig")
    lines = tuple(text.splitlines())
    documents: list[Document] = []
    breaches: list[Breach] = []
    for source, value in zip(sources, read_values(text), strict=True):
        tree = Tree(value, source, lines)
        breaches += _report_duplicate_keys(tree, source)
        documents += _read_objects(tree, breaches)
    return documents, breaches


def _report_duplicate_keys(tree: Tree, source: YamlDocument) -> Iterator[Breach]:
    for problem in source.problems:
        yield Breach("duplicate-key", tree, (), problem.message, place=problem.place)


def _read_objects(tree: Tree, breaches: list[Breach]) -> Iterator[Document]:
    if not isinstance(tree.value, dict) or not tree.get("kind") or not tree.get("apiVersion"):
        breaches.append(Breach("not-a-manifest", tree, (), "this has no apiVersion and kind, so it was not checked"))
        return
    if str(tree.get("kind")).endswith("List") and isinstance(tree.get("items"), list):
        for number, _ in list_mappings(tree.get("items")):
            yield from _read_objects(tree.get_subtree("items", number), breaches)
        return
    yield to_document(tree)
