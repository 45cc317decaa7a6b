"""One run of all rules over the documents."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from trackbed.lint.catalogue import load_rules
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach, LintProblem
from trackbed.lint.ignore import apply_ignores
from trackbed.lint.rules import CHECKS
from trackbed.lint.schemas.check import check_schema, list_defined_versions
from trackbed.lint.schemas.crds import Schemas
from trackbed.lint.schemas.removed import find_named_release
from trackbed.lint.severity import weigh
from trackbed.lint.templates import is_empty, is_filled_later, is_template

_NOTES = {"template", "no-schema", "partial-object", "not-a-manifest", "duplicate-key"}
"""Rules whose breaches hold whatever a template fills in."""
_ABSENCES = {"missing-field", "image-missing"}
"""Rules that find what is not there."""
_STAND_INS = {
    "wrong-type": re.compile(r"[A-Z][A-Z0-9_]+"),
    "bad-value": re.compile(r"[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)+|X{3,}|x{3,}"),
}
"""By rule, what a script or a person replaces: of a value of the right type, only names of several words, and XXX."""
_REQUESTS = frozenset({"your", "replace", "enter", "insert", "changeme", "placeholder", "base64", "encoded"})
"""Words of a secret's value that tells a person what to write there."""
_WORDS = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+")
_ObjectStarts = dict[str, list[tuple[int, str]]]
"""First line and title of each object, by file."""


def lint(
    corpus: Corpus, schemas: Schemas | None = None, reading_breaches: Iterable[Breach] = ()
) -> tuple[LintProblem, ...]:
    """Return the problems of all documents, sorted by place.

    `reading_breaches` were found while the files were parsed. Comments of the files accept problems (`ignore`). A
    breach of a rule hides breaches of the schema at the same path. Raises SpecError if a CRD cannot be read.
    """
    release = find_named_release(corpus.select_kinds("ClusterConfiguration", "Cluster"))
    rule_breaches = [weigh(breach, corpus.builds, release) for check in CHECKS for breach in check(corpus)]
    covered = {_get_location_key(breach) for breach in rule_breaches}
    defined = list_defined_versions(corpus.select_kinds("CustomResourceDefinition"))
    schema_breaches = [
        weigh(breach, corpus.builds, release)
        for doc in corpus.documents
        for breach in (check_schema(doc, schemas, defined) if schemas else ())
    ]
    breaches = [
        *reading_breaches,
        *rule_breaches,
        *(breach for breach in schema_breaches if _get_location_key(breach) not in covered),
    ]
    starts = _index_objects(corpus)
    finished = _note_unfinished(_drop_repeated_notes(breaches), corpus.builds.unfinished)
    problems = dict.fromkeys(_to_problem(breach, starts) for breach in _note_templates(list(finished)))
    trees = [*(doc.tree for doc in corpus.documents), *(breach.tree for breach in breaches)]
    return apply_ignores(problems, {tree.source.file: tree.lines for tree in trees if tree.position is None})


def _drop_repeated_notes(breaches: list[Breach]) -> list[Breach]:
    """Leave one note for all objects of a file whose kind has no schema."""
    notes: set[tuple[str, str]] = set()
    remaining = []
    for breach in breaches:
        key = (breach.tree.source.file, breach.message)
        if breach.rule != "no-schema" or key not in notes:
            remaining.append(breach)
        if breach.rule == "no-schema":
            notes.add(key)
    return remaining


def _note_unfinished(breaches: list[Breach], files: AbstractSet[str]) -> Iterator[Breach]:
    """Yield the breaches; in files that Kustomize completes, those of what is absent become one note each."""
    noted: set[str] = set()
    for breach in breaches:
        file = breach.tree.source.file
        is_absent = breach.rule in _ABSENCES or (breach.rule not in _NOTES and is_empty(breach.tree.get(*breach.path)))
        if file not in files or not is_absent:
            yield breach
        elif file not in noted:
            noted.add(file)
            message = (
                "Kustomize completes this file, so what is absent was not checked; lint what `kustomize build` prints"
            )
            yield breach._replace(rule="partial-object", message=message, edit=None)


def _note_templates(breaches: list[Breach]) -> Iterator[Breach]:
    """Yield the breaches; those at values that are filled in later become one note for each file."""
    files = {breach.place.file for breach in breaches if breach.rule == "template" and breach.place}
    for breach in breaches:
        if breach.rule in _NOTES or not (is_filled_later(breach.tree, breach.path) or _is_stand_in(breach)):
            yield breach
            continue
        place = breach.place or breach.tree.find_place(breach.path, key=breach.key)
        if place.file not in files:
            files.add(place.file)
            message = "values such as this one are filled in later, so they were not checked; render the file first"
            yield breach._replace(rule="template", message=message, edit=None)


def _is_stand_in(breach: Breach) -> bool:
    """Return whether a name in capitals, as FILESTORE_CAPACITY or PORT, stands where it cannot be the value.

    In a template any word in capitals does. In a secret, so do words such as `your-base64-encoded-password`.
    """
    pattern = _STAND_INS.get("wrong-type" if breach.rule == "bad-value" and is_template(breach.tree) else breach.rule)
    value = breach.tree.get(*breach.path) if pattern else None
    if not isinstance(value, str) or pattern is None:
        return False
    is_request = breach.rule == "bad-value" and breach.tree.get("kind") == "Secret" and _is_request(value)
    return pattern.fullmatch(value) is not None or is_request


def _is_request(value: str) -> bool:
    return not _REQUESTS.isdisjoint(word.lower() for word in _WORDS.findall(value))


def _get_location_key(breach: Breach) -> tuple[object, ...]:
    return id(breach.tree.source), breach.tree.prefix, breach.path


def _index_objects(corpus: Corpus) -> _ObjectStarts:
    """Return the objects of each file as (first line, title), sorted by line."""
    objects: _ObjectStarts = {}
    for doc in corpus.documents:
        place = doc.tree.find_place()
        objects.setdefault(place.file, []).append((place.line, doc.title))
    return {file: sorted(starts) for file, starts in objects.items()}


def _to_problem(breach: Breach, starts: _ObjectStarts) -> LintProblem:
    rule = load_rules()[breach.rule]
    place = breach.place or breach.tree.find_place(breach.path, key=breach.key)
    objects = starts.get(place.file, [])
    before = bisect_right(objects, place.line, key=lambda start: start[0])
    title = objects[before - 1][1] if before else ""
    severity = breach.severity or rule.severity
    return LintProblem(
        rule.id, severity, place.file, place.line, place.column, breach.message, rule.fix, title, breach.edit
    )
