"""Kustomize: which files of the input patch others, are completed by overlays, or are never built together.

A Kustomization names files and folders relative to its own (kustomize.config.k8s.io: `resources`, `components`,
`patches`; in earlier versions `bases`, `patchesStrategicMerge`). What it names by URL is not in the input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from posixpath import dirname, join, normpath
from typing import NamedTuple

from trackbed.lint.document import Document
from trackbed.lint.tree import enumerate_mappings, enumerate_texts

GROUP, KINDS = "kustomize.config.k8s.io", frozenset({"Kustomization", "Component"})
FILES = frozenset({"kustomization.yaml", "kustomization.yml"})
"""Names of files that are Kustomizations also where they do not say so."""
_BUILT = ("resources", "bases", "components")
_READ = ("patchesStrategicMerge", "transformers", "generators", "configurations")
"""Fields with files that Kustomize reads itself."""
_PATCHES = ("patches", "patchesJson6902")


class Builds(NamedTuple):
    """What the Kustomizations of the input make of its files."""

    unfinished: frozenset[str]
    """Files that are patches, or that an overlay or labels of a Kustomization of the input complete."""
    roots: Mapping[str, AbstractSet[str]]
    """File -> the folders that it is built from, of those which no other Kustomization names."""

    def are_apart(self, file: str, other: str) -> bool:
        """Return whether two files are each built, but never together."""
        roots, others = self.roots.get(file), self.roots.get(other)
        return bool(roots and others) and not self.are_together(file, other)

    def are_together(self, file: str, other: str) -> bool:
        """Return whether a Kustomization builds both files."""
        return not set(self.roots.get(file, ())).isdisjoint(self.roots.get(other, ()))


def read_builds(documents: Iterable[Document]) -> Builds:
    """Return what the Kustomizations among the documents make of their files."""
    folders = {dirname(doc.tree.source.file): doc for doc in documents if doc.group == GROUP and doc.kind in KINDS}
    named = {path for folder, doc in folders.items() for path in _iter_paths(folder, doc, _BUILT) if path in folders}
    patches = {path for folder, doc in folders.items() for path in _iter_patches(folder, doc)}
    labelled = {folder for folder, doc in folders.items() if _writes_selectors(doc)}
    roots: dict[str, set[str]] = defaultdict(set)
    for folder in folders.keys() - named:
        for path in _list_files(folders, {folder}):
            roots[path].add(folder)
    return Builds(frozenset(patches | _list_files(folders, named | labelled)), roots)


def _writes_selectors(doc: Document) -> bool:
    """Return whether a Kustomization writes labels into selectors too, which need not be there before."""
    return bool(doc.get("commonLabels")) or any(
        labels.get("includeSelectors") is True for _, labels in enumerate_mappings(doc.get("labels"))
    )


def _list_files(folders: Mapping[str, Document], starts: AbstractSet[str]) -> set[str]:
    """Return the files that the Kustomizations of some folders build, themselves and through other folders."""
    folders_built, waiting, files = set(starts), list(starts), set[str]()
    while waiting:
        folder = waiting.pop()
        for path in _iter_paths(folder, folders[folder], _BUILT):
            if path not in folders:
                files.add(path)
            elif path not in folders_built:
                folders_built.add(path)
                waiting.append(path)
        files |= set(_iter_patches(folder, folders[folder]))
    return files


def _iter_patches(folder: str, doc: Document) -> Iterator[str]:
    """Yield the files that a Kustomization reads as patches and plugins."""
    yield from _iter_paths(folder, doc, _READ)
    for field in _PATCHES:
        for _, patch in enumerate_mappings(doc.get(field)):
            if isinstance(patch.get("path"), str):
                yield normpath(join(folder, patch["path"]))


def _iter_paths(folder: str, doc: Document, fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        for _, text in enumerate_texts(doc.get(field)):
            if "\n" not in text:
                yield normpath(join(folder, text))
