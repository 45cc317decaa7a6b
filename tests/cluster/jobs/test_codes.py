"""Codes of notes: those of faults that a manifest shows by itself are rules of lint, others are about the plan."""

import ast
from collections.abc import Iterator
from pathlib import Path

import trackbed.cluster.jobs
from trackbed.cluster.jobs.environment import _HARMFUL_VALUES
from trackbed.doctor.catalogue import load_catalogue, load_unchecked_faults
from trackbed.lint.catalogue import load_rules

_OF_PLAN = {
    "job-more-gpus-than-nodes",
    *("mpi-variable-not-exported", "nccl-fewer-devices", "nccl-variable", "nccl-variable-unwanted", "pod-annotation"),
    *("pod-claim-missing", "pod-claim-of-other-template", "pod-fewer-rails-than-planned", "pod-gpu-of-other-vendor"),
    *("pod-gpus-without-rails", "pod-host-network", "pod-more-gpus-than-a-node"),
    *("pod-host-path", "pod-network-doubled", "pod-node-selector", "pod-not-privileged", "pod-of-unknown-kind"),
    *("pod-rails-unused", "pod-resource-of-other-stack", "pod-shm-on-disk", "pod-shm-small"),
    *(
        "pod-spec-without-annotations",
        "pod-trainjob-claims-in-patch",
        "pod-trainjob-without-gpus",
        "pod-two-gpu-containers",
    ),
}
"""Differences from a plan and its stack, of which lint knows nothing, and limits of a job's API."""


def _iter_codes() -> Iterator[str]:
    """Yield the codes of all notes that the package writes."""
    for file in Path(trackbed.cluster.jobs.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Note":
                code = node.args[1]
                if isinstance(code, ast.Constant):
                    yield str(code.value)
                else:
                    assert ast.unparse(code) == "code", f"{file}: a code that is computed"
    yield from (code for _, code, _ in _HARMFUL_VALUES.values())


def test_a_fault_of_a_pod_has_one_name_in_job_and_lint() -> None:
    assert set(_iter_codes()) - load_rules().keys() == _OF_PLAN


def test_a_name_is_of_one_fault_in_lint_job_and_doctor() -> None:
    of_hosts = load_catalogue().keys() | load_unchecked_faults().keys()
    assert of_hosts & (load_rules().keys() | set(_iter_codes())) == set()
