"""Lint finds nothing in what Trackbed itself renders: a stack's objects with a job that has its rails."""

from __future__ import annotations

import pytest

from tests.cluster.stacks.sites import NO_DUAL, SHAPES, SITES, planned
from trackbed.cluster.jobs.kinds import KINDS, in_namespace, new, shape
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.stack import objects
from trackbed.fabric.yaml_text import render_documents
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import read_manifests
from trackbed.lint.run import lint

CASES = [(name, which) for name in SITES for which in SHAPES if not (SHAPES[which][2] and name in NO_DUAL)]
EXPECTED_NOTES = {"one-pod-per-block", "route-redundant", "pool-not-used"}
"""True of the design: a /31 holds one pod, and both routes are the host's."""
NOT_TOLD = {"azure": {"traffic-class-unset"}}
"""Notes for want of knowledge: no object says that these rails are InfiniBand."""


def text(name: str, which: str) -> bytes:
    nodes, rails, dual = SHAPES[which]
    plan = planned(name, nodes, rails, dual=dual)
    given = build_requirements(stack(name), plan)
    job = new(KINDS["job"], given, shape(plan, given, "job", "example.org/x:1", 2))[0] if given.has_rails else []
    return "".join(render_documents([*objects(stack(name), plan), *in_namespace(job, "default")])).encode()


@pytest.mark.parametrize(("name", "which"), CASES, ids=[f"{name}, {which}" for name, which in CASES])
def test_lint_finds_nothing_in_what_is_rendered(name: str, which: str) -> None:
    documents, breaches = read_manifests(text(name, which), "rendered.yaml")
    known = EXPECTED_NOTES | NOT_TOLD.get(name, set())
    problems = lint(index_documents(documents), early=breaches)
    assert [
        f"{problem.line}: {problem.rule}: {problem.message}" for problem in problems if problem.rule not in known
    ] == []
