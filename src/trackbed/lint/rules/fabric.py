"""Rules for Fabrics: what `trackbed plan` refuses or warns of."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.source import YamlDocument
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach

_GROUP = "trackbed.dev"


def check_fabrics(corpus: Corpus) -> Iterator[Breach]:
    """Find Fabrics for which no plan can be made, or whose plan is probably not as intended."""
    for doc in corpus.select_kinds("Fabric"):
        if doc.group != _GROUP or doc.tree.prefix:
            continue
        for problem in _find_problems(doc.tree.source):
            place = problem.place or doc.tree.find_place(problem.path)
            rule = "fabric-doubtful" if problem.severity == "warning" else "fabric-invalid"
            yield Breach(rule, doc.tree, problem.path, f"{problem.message} [{problem.code}]", place=place)


def _find_problems(source: YamlDocument) -> tuple[Problem, ...]:
    from trackbed.fabric.model.load import load_document  # noqa: PLC0415 - pydantic is slow to import
    from trackbed.fabric.plan.compute import compute_plan  # noqa: PLC0415 - needed for Fabrics only

    try:
        return compute_plan(load_document(source), {}).warnings
    except SpecError as error:
        return error.problems


CHECKS = (check_fabrics,)
