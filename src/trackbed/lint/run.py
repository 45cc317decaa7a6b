"""One run of all rules over the documents."""

from bisect import bisect_right
from collections.abc import Iterable

from trackbed.lint.catalogue import load_rules
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach, LintProblem
from trackbed.lint.rules import CHECKS
from trackbed.lint.schemas.check import check_schema
from trackbed.lint.schemas.crds import Schemas

_Starts = dict[str, list[tuple[int, str]]]


def lint(corpus: Corpus, schemas: Schemas | None = None, early: Iterable[Breach] = ()) -> tuple[LintProblem, ...]:
    """Return the problems of all documents in order of place; `early` are breaches found while reading.

    A breach of a rule hides breaches of the schema at the same path. Raises SpecError if a CRD cannot be read.
    """
    rule_breaches = [breach for check in CHECKS for breach in check(corpus)]
    covered = {_identify(breach) for breach in rule_breaches}
    schema_breaches = [breach for doc in corpus.documents for breach in (check_schema(doc, schemas) if schemas else ())]
    breaches = [*early, *rule_breaches, *(breach for breach in schema_breaches if _identify(breach) not in covered)]
    starts = _index_objects(corpus)
    problems = dict.fromkeys(_to_problem(breach, starts) for breach in breaches)
    return tuple(sorted(problems, key=lambda problem: problem.order))


def _identify(breach: Breach) -> tuple[object, ...]:
    return id(breach.tree.source), breach.tree.prefix, breach.path


def _index_objects(corpus: Corpus) -> _Starts:
    """Return the (first line, title) of each object by file, sorted."""
    objects: _Starts = {}
    for doc in corpus.documents:
        place = doc.tree.find_place()
        objects.setdefault(place.file, []).append((place.line, doc.title))
    return {file: sorted(starts) for file, starts in objects.items()}


def _to_problem(breach: Breach, starts: _Starts) -> LintProblem:
    rule = load_rules()[breach.rule]
    place = breach.place or breach.tree.find_place(breach.path, key=breach.key)
    objects = starts.get(place.file, [])
    before = bisect_right(objects, place.line, key=lambda start: start[0])
    title = objects[before - 1][1] if before else ""
    return LintProblem(
        rule.id, rule.severity, place.file, place.line, place.column, breach.message, rule.fix, title, breach.edit
    )
