"""Published manifests: every mistake in them is found, and nothing else."""

import os
from pathlib import Path

import pytest

from tests.lint.published import GROUPS, MISTAKES, Mistake, text
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import Schemas, index_crds

_SHARED = Path(os.environ.get("TRACKBED_SHARED") or Path(__file__).parents[3] / "shared")

pytestmark = [
    pytest.mark.skipif(not (_SHARED / "background").is_dir(), reason="the documents are not here (TRACKBED_SHARED)"),
    pytest.mark.may_skip("the documents and CRDs are other people's and not part of the project"),
]


@pytest.fixture(scope="module")
def crds() -> Schemas:
    return index_crds((str(path), path.read_bytes()) for path in sorted((_SHARED / "crds").rglob("*.yaml")))


def _matches(mistake: Mistake, problem: tuple[str, str, str]) -> bool:
    return mistake[:2] == problem[:2] and mistake.message in problem[2]


@pytest.mark.parametrize("group", GROUPS)
def test_every_published_mistake_is_found_and_nothing_else(group: str, crds: Schemas, tmp_path: Path) -> None:
    documents, breaches = [], []
    for sample in GROUPS[group]:
        file = tmp_path / f"{sample.id}.yaml"
        file.write_text(text(sample, _SHARED / "background"), encoding="utf-8")
        read, early = parse_manifests(file.read_bytes(), str(file))
        documents += read
        breaches += early
    problems = [
        (Path(problem.file).stem, problem.rule, problem.message)
        for problem in lint(index_documents(documents), crds, breaches)
    ]
    samples = {sample.id for sample in GROUPS[group]}
    wanted = [mistake for mistake in MISTAKES if mistake.sample in samples]
    missed = [mistake for mistake in wanted if not any(_matches(mistake, problem) for problem in problems)]
    invented = [problem for problem in problems if not any(_matches(mistake, problem) for mistake in wanted)]
    assert (missed, invented) == ([], [])
    assert len(problems) == len(wanted)


def test_sixteen_published_objects_are_refused_by_their_schemas(crds: Schemas) -> None:
    refused = set()
    for sample in (sample for samples in GROUPS.values() for sample in samples):
        documents, _ = parse_manifests(text(sample, _SHARED / "background").encode(), sample.id)
        for problem in lint(index_documents(documents), crds):
            if problem.rule in {"unknown-field", "missing-field", "wrong-type", "bad-choice", "whereabouts-removed"}:
                refused.add((sample.id, problem.object))
    assert len(refused) == 16
