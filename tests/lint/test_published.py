"""Published manifests: every mistake in them is found, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lint.published import GROUPS, MISTAKES, text
from trackbed.lint.corpus import corpus
from trackbed.lint.manifests import manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import Schemas, schemas

_SHARED = Path(os.environ.get("TRACKBED_SHARED") or Path(__file__).parents[3] / "shared")

pytestmark = [
    pytest.mark.skipif(not (_SHARED / "background").is_dir(), reason="the documents are not here (TRACKBED_SHARED)"),
    pytest.mark.may_skip("the documents and CRDs are other people's and not part of the project"),
]


@pytest.fixture(scope="module")
def crds() -> Schemas:
    return schemas((str(path), path.read_bytes()) for path in sorted((_SHARED / "crds").rglob("*.yaml")))


@pytest.mark.parametrize("group", GROUPS)
def test_every_published_mistake_is_found_and_nothing_else(group: str, crds: Schemas, tmp_path: Path) -> None:
    documents, hits = [], []
    for sample in GROUPS[group]:
        file = tmp_path / f"{sample.id}.yaml"
        file.write_text(text(sample, _SHARED / "background"), encoding="utf-8")
        read, early = manifests(file.read_bytes(), str(file))
        documents += read
        hits += early
    found = [(Path(one.file).stem, one.rule, one.message) for one in lint(corpus(documents), crds, hits)]
    samples = {sample.id for sample in GROUPS[group]}
    wanted = [mistake for mistake in MISTAKES if mistake.sample in samples]
    missed = [one for one in wanted if not any(one[:2] == got[:2] and one.what in got[2] for got in found)]
    invented = [got for got in found if not any(one[:2] == got[:2] and one.what in got[2] for one in wanted)]
    assert (missed, invented) == ([], [])
    assert len(found) == len(wanted)


def test_sixteen_published_objects_are_refused_by_their_schemas(crds: Schemas) -> None:
    refused = set()
    for sample in (sample for samples in GROUPS.values() for sample in samples):
        documents, _ = manifests(text(sample, _SHARED / "background").encode(), sample.id)
        for one in lint(corpus(documents), crds):
            if one.rule in {"unknown-field", "missing-field", "wrong-type", "bad-choice", "whereabouts-removed"}:
                refused.add((sample.id, one.object))
    assert len(refused) == 16
