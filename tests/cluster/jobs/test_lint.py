"""Lint finds nothing in what Trackbed itself renders: a stack's objects with a job that has its rails."""

from __future__ import annotations

import msgspec
import pytest

from tests.cluster.stacks.sites import NO_DUAL, SHAPES, SITES, alike, planned
from trackbed.cluster.jobs.kinds import KINDS, build_job, build_job_parameters, set_namespace
from trackbed.cluster.jobs.kinds.queued import build_queue_objects
from trackbed.cluster.jobs.nccl_options import NCCL_OPTIONS
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.fabric.yaml_text import render_documents
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_SCHEMAS = index_crds()

CASES = [(name, which) for name in SITES for which in SHAPES if not (SHAPES[which][2] and name in NO_DUAL)]
EXPECTED_NOTES = {"one-pod-per-block", "route-redundant", "pool-not-used"}
"""True of the design: a /31 holds one pod, and both routes are the host's."""
NOT_TOLD = {"azure": {"traffic-class-unset"}, "openshift": {"no-schema"}}
"""Notes for want of knowledge: no object says that these rails are InfiniBand; OLM's kinds are not shipped."""


def text(name: str, which: str, kind: str = "job") -> bytes:
    nodes, rails, dual = SHAPES[which]
    plan = planned(name, nodes, rails, dual=dual)
    requirements = build_requirements(load_stack(name), plan)
    job = (
        build_job(KINDS[kind], requirements, build_job_parameters(plan, requirements, kind, "example.org/x:1", 2))[0]
        if requirements.has_rails
        else []
    )
    return "".join(render_documents([*iter_objects(load_stack(name), plan), *set_namespace(job, "default")])).encode()


def find_problems(manifest: bytes, known: set[str]) -> list[str]:
    documents, breaches = parse_manifests(manifest, "rendered.yaml")
    problems = lint(index_documents(documents), _SCHEMAS, breaches)
    return [f"{problem.line}: {problem.rule}: {problem.message}" for problem in problems if problem.rule not in known]


@pytest.mark.parametrize(("name", "which"), CASES, ids=[f"{name}, {which}" for name, which in CASES])
def test_lint_finds_nothing_in_what_is_rendered(name: str, which: str) -> None:
    assert find_problems(text(name, which), EXPECTED_NOTES | NOT_TOLD.get(name, set())) == []


COMPUTE = (("cpu", "32"), ("memory", "256Gi"), ("hugepages-2Mi", "4Gi"))
NCCL = tuple((name, {"NCCL_NET_GDR_LEVEL": "PHB", "NCCL_DEBUG": "INFO"}.get(name, "1")) for name in NCCL_OPTIONS)
VARIANTS: dict[str, tuple[set[int] | None, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], bool]] = {
    "plain": (None, (), (), False),
    "CPU, memory, huge pages, options of NCCL": (None, COMPUTE, NCCL, False),
    "in a queue": (None, COMPUTE, (), True),
    "some rails": ({0, 3}, (), (), False),
}
"""What is chosen -> rails, compute resources, options of NCCL, whether the job waits in a queue."""
CHOICES = {"some rails": {"rails-not-gpus"}}
"""True of what the user chooses."""
QUEUELESS = {"daemonset", "trainingruntime", "clustertrainingruntime"}


def jobs_of_every_kind(name: str, variant: str) -> list[Manifest]:
    """The objects of a stack, a job of each kind, and the queue that they wait in."""
    rails, compute, options, is_queued = VARIANTS[variant]
    plan = planned(name, *SHAPES["4 nodes"][:2])
    requirements = build_requirements(load_stack(name), plan, rails)
    requirements = msgspec.structs.replace(requirements, variables=requirements.variables + options)
    params = build_job_parameters(plan, requirements, "a", "example.org/nccl:1", 2)
    objects = list(iter_objects(load_stack(name), plan))
    level = "topology.kubernetes.io/zone"
    if is_queued:
        objects += build_queue_objects(plan, requirements, "rails", params.gpus_per_node, (level,))
    for kind in KINDS:
        queue = "rails" if is_queued and kind not in QUEUELESS else None
        job = msgspec.structs.replace(params, name=kind, compute=compute)
        objects += set_namespace(
            build_job(KINDS[kind], requirements, job, queue, level if queue else None)[0], "default"
        )
    return objects


WITH_RAILS = [name for name in SITES if build_requirements(load_stack(name), planned(name, alike(4, 8), 8)).has_rails]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", WITH_RAILS)
def test_lint_finds_nothing_in_jobs_of_every_kind_and_stack(name: str, variant: str) -> None:
    manifest = "".join(render_documents(jobs_of_every_kind(name, variant))).encode()
    known = EXPECTED_NOTES | NOT_TOLD.get(name, set()) | CHOICES.get(variant, set())
    assert find_problems(manifest, known) == []
