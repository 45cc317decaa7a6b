"""Lint: documents in, findings out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from trackbed.lint.catalogue import catalogue
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Finding, Hit
from trackbed.lint.rules import CHECKS
from trackbed.lint.schemas.check import check
from trackbed.lint.schemas.crds import Schemas

_Starts = dict[str, list[tuple[int, str]]]


def lint(corpus: Corpus, schemas: Schemas | None = None, early: Iterable[Hit] = ()) -> tuple[Finding, ...]:
    """Every finding, in order of place; `early` are hits of reading. SpecError where a CRD cannot be read.

    What a rule explains is not told a second time by the schema.
    """
    told = [hit for find in CHECKS for hit in find(corpus)]
    explained = {_spot(hit) for hit in told}
    refused = [hit for doc in corpus.documents for hit in (check(doc, schemas) if schemas else ())]
    hits = [*early, *told, *(hit for hit in refused if _spot(hit) not in explained)]
    starts = _starts(corpus)
    findings = dict.fromkeys(_finding(hit, starts) for hit in hits)
    return tuple(sorted(findings, key=lambda found: found.order))


def _spot(hit: Hit) -> tuple[object, ...]:
    return id(hit.tree.source), hit.tree.prefix, hit.path


def _starts(corpus: Corpus) -> _Starts:
    """File -> (first line, title) of each object, in order."""
    found: _Starts = {}
    for doc in corpus.documents:
        place = doc.tree.place()
        found.setdefault(place.file, []).append((place.line, doc.title))
    return {file: sorted(starts) for file, starts in found.items()}


def _finding(hit: Hit, starts: _Starts) -> Finding:
    rule = catalogue()[hit.rule]
    place = hit.place or hit.tree.place(hit.path, key=hit.key)
    objects = starts.get(place.file, [])
    before = bisect_right(objects, place.line, key=lambda start: start[0])
    title = objects[before - 1][1] if before else ""
    return Finding(rule.id, rule.severity, place.file, place.line, place.column, hit.message, rule.fix, title, hit.edit)
