"""Manifest files, in YAML or JSON, as documents. Each item of a List is a document."""

import re
from collections.abc import Iterator
from dataclasses import replace
from posixpath import basename

from trackbed.fabric.model.problems import Place, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml
from trackbed.fabric.typed_yaml import convert_document
from trackbed.lint.document import Document, to_document
from trackbed.lint.finding import Breach
from trackbed.lint.kustomize import FILES, GROUP
from trackbed.lint.templates import has_expressions, mask_expressions
from trackbed.lint.tree import Tree, enumerate_mappings

_NOT_YAML = {"bad-yaml", "tab"}
"""Codes of problems that libyaml reports."""
_OBJECT_KEY = re.compile(rb"\b(?:apiVersion|kind)[\"']?\s*:")


def parse_manifests(raw: bytes, file: str) -> tuple[list[Document], list[Breach]]:
    """Return the documents of a manifest file, and the breaches found while parsing it.

    Raises SpecError if the file is not YAML. Of a template whose lines depend on its values nothing is read.
    """
    try:
        sources = read_yaml(raw, file)
        is_template = any(problem.code == "bad-key" for source in sources for problem in source.problems)
    except SpecError as error:
        if {problem.code for problem in error.problems} - _NOT_YAML:
            raise
        sources, is_template = [], True
        if not has_expressions(raw.decode("utf-8-sig")):
            raise
    text = raw.decode("utf-8-sig")
    if is_template and has_expressions(text):
        return _parse_template(text, file)
    return _parse_sources(sources, text)


def _parse_template(text: str, file: str) -> tuple[list[Document], list[Breach]]:
    """Read a template with its expressions masked; return only a note if it is no YAML then."""
    masked = mask_expressions(text)
    note = _build_template_note(file)
    if masked is None:
        return [], [note]
    try:
        documents, breaches = _parse_sources(read_yaml(masked.encode(), file), masked)
    except SpecError:
        return [], [note]
    return documents, [note, *(breach for breach in breaches if breach.rule != "not-a-manifest")]


def note_other_file(raw: bytes, file: str, error: SpecError) -> Breach | None:
    """Return a note on a file that is no YAML, by `error`, and shows no object, such as TOML; None for all others."""
    if {problem.code for problem in error.problems} - _NOT_YAML - {"not-utf8"} or _OBJECT_KEY.search(raw):
        return None
    message = "this is not YAML in UTF-8, and has no apiVersion and kind, so it was not checked"
    return _build_file_note("not-a-manifest", file, message)


def _build_template_note(file: str) -> Breach:
    message = "this is a template, so values that it fills in were not checked; render it first"
    return _build_file_note("template", file, message)


def _build_file_note(rule: str, file: str, message: str) -> Breach:
    tree = Tree(None, read_yaml(b"[]", file)[0], ())
    return Breach(rule, tree, (), message, place=Place(file, 1, 1))


def _parse_sources(sources: list[YamlDocument], text: str) -> tuple[list[Document], list[Breach]]:
    lines = tuple(text.splitlines())
    documents: list[Document] = []
    breaches: list[Breach] = []
    for source in sources:
        tree = Tree(convert_document(source), source, lines)
        breaches += [
            Breach("duplicate-key", tree, (), problem.message, place=problem.place) for problem in source.problems
        ]
        documents += _iter_objects(tree, breaches)
    return documents, breaches


def _iter_objects(tree: Tree, breaches: list[Breach]) -> Iterator[Document]:
    if isinstance(tree.value, dict) and basename(tree.source.file) in FILES and not tree.get("kind"):
        yield replace(to_document(tree), kind="Kustomization", api_version=f"{GROUP}/v1beta1")
        return
    if not isinstance(tree.value, dict) or not tree.get("kind") or not tree.get("apiVersion"):
        if tree.get("apiVersion") and "kind" in tree.value:
            breaches.append(Breach("missing-field", tree, ("kind",), "kind is empty, so this is no object", key=True))
            return
        breaches.append(Breach("not-a-manifest", tree, (), "this has no apiVersion and kind, so it was not checked"))
        return
    if isinstance(tree.get("sops", "mac"), str):
        message = "SOPS encrypted this object, so it was not checked; decrypt it first: sops -d FILE | trackbed lint -"
        breaches.append(Breach("template", tree, ("sops",), message, key=True))
        return
    if str(tree.get("kind")).endswith("List") and isinstance(tree.get("items"), list):
        for number, _ in enumerate_mappings(tree.get("items")):
            yield from _iter_objects(tree.get_subtree("items", number), breaches)
        return
    yield to_document(tree)
