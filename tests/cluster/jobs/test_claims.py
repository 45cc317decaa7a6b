"""Claims of rails: the templates that fit, their namespace, and claims of other rails."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.cluster.jobs.wanteds import WANTED, template
from tests.cluster.stacks.sites import alike, planned
from trackbed.cli.main import cli
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.jobs import compare_jobs
from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.stacks import load_stack

CLAIMS = WANTED["claims"]
BOTH = pytest.mark.parametrize("stack", ["dranet", "dra-sriov"])


def claiming(*names: str, container: str = "a") -> dict[str, Any]:
    """A pod of two containers, of which one has claims of these templates."""
    claims = [{"name": f"mine-{name}", "resourceClaimTemplateName": name} for name in names]
    references = [{"name": claim["name"]} for claim in claims]
    containers = [{"name": name, "resources": {"claims": references} if name == container else {}} for name in "ab"]
    return {"spec": {"resourceClaims": claims, "containers": containers}}


def requirements_of(stack: str, rails: tuple[int, ...] | None = None) -> PodRequirements:
    return build_requirements(load_stack(stack), planned(stack, alike(4, 8), 8), rails)


@BOTH
def test_a_claim_of_rails_with_gpus_is_a_claim_of_the_rails(stack: str) -> None:
    requirements = requirements_of(stack)
    [claim] = requirements.access.claims
    pod = claiming(f"{claim.template}-gpus")
    before = copy.deepcopy(pod)
    notes = inject_rails(pod, requirements)
    assert not {note.code for note in notes} & {"pod-claim-missing", "claim-unused"}
    assert pod["spec"]["resourceClaims"] == before["spec"]["resourceClaims"]


CLAIMED = {"eight-gpus": [False, True], "eight-rails-gpus": [False, True], "eight-rails": [True, False]}


@pytest.mark.parametrize(("name", "variables"), CLAIMED.items())
def test_rails_go_to_the_container_that_claims_more_than_rails(name: str, variables: list[bool]) -> None:
    pod = claiming(name, container="b")
    inject_rails(pod, CLAIMS)
    assert ["env" in container for container in pod["spec"]["containers"]] == variables


@BOTH
def test_claims_of_rails_that_were_not_chosen_are_told(stack: str) -> None:
    [claim] = requirements_of(stack).access.claims
    single = claim.template.removesuffix("s")
    pod = claiming(claim.template, f"{claim.template}-gpus", f"{single}1", f"{single}5", "other")
    notes = inject_rails(pod, requirements_of(stack, (0, 1)))
    extra = [note.difference.split()[4] for note in notes if note.verdict == "extra"]
    assert extra == [claim.template, f"{claim.template}-gpus", f"{single}5"]


@pytest.mark.parametrize(("namespace", "codes"), [("ai", []), (None, []), ("b", ["claim-template-not-found"])])
def test_claims_in_a_namespace_without_their_template_are_told(namespace: str | None, codes: list[str]) -> None:
    metadata = {"name": "a"} | ({"namespace": namespace} if namespace else {})
    job = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template()}}
    [patched] = compare_jobs([job], CLAIMS)
    notes = [note for note in patched.notes if note.verdict != "missing"]
    assert [(note.code, note.path) for note in notes] == [(code, "metadata.namespace") for code in codes]


def test_the_pods_of_a_train_job_are_in_its_namespace() -> None:
    api = "trainer.kubeflow.org/v1alpha1"
    group = {"name": "node", "template": {"spec": {"template": template()}}}
    spec = {"template": {"spec": {"replicatedJobs": [group]}}}
    runtime = {"apiVersion": api, "kind": "ClusterTrainingRuntime", "metadata": {"name": "r"}, "spec": spec}
    reference = {"runtimeRef": {"name": "r"}}
    job = {"apiVersion": api, "kind": "TrainJob", "metadata": {"name": "j", "namespace": "b"}, "spec": reference}
    kept = [
        [note.code for note in patched.notes if note.verdict != "missing"]
        for patched in compare_jobs([runtime, job], CLAIMS)
    ]
    assert kept == [[], ["claim-template-not-found"]]


FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]", ports: ["0000:18:00.0", "0000:20:00.0"]}]
  rails: 2
  addressing: {scheme: point-to-point, layout: spectrum-x-2tier}
  kubernetes: {namespace: ai}
  otherRanges: {docker: []}
"""


@pytest.mark.parametrize(("namespace", "notes"), [("ai", 0), ("b", 1)])
@pytest.mark.parametrize("kind", ["job", "pod", "trainjob"])
def test_a_new_job_in_a_namespace_without_claim_templates_is_told(
    tmp_path: Path, kind: str, namespace: str, notes: int
) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    arguments = ("-f", str(path), "--stack", "dranet", "--image", "i", "--namespace", namespace)
    result = CliRunner().invoke(cli, ["job", "new", kind, *arguments])
    assert (result.exit_code, result.stderr.count("[claim-template-not-found]")) == (0, notes)
    spaces = {manifest["metadata"].get("namespace") for manifest in yaml.safe_load_all(result.stdout)}
    assert spaces - {None} == {namespace}
