"""Servers with GPUs of two vendors in one fabric: who installs what, and which nodes a job and a queue count."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from trackbed.cli.main import cli
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.jobs import compare_jobs
from trackbed.cluster.jobs.kinds import KINDS, build_job, build_job_parameters
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.comparison import compare_stack
from trackbed.cluster.stacks.install.values import list_charts
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{nodes}]
  rails: 8
  addressing: {{scheme: shared-subnet, ipv4: 10.64.0.0/13}}
  vfs: {{count: 8}}
  otherRanges: {{docker: []}}
"""
AMD = '{hosts: "amd-[0-3]", server: dell-xe9680-mi300x, nic: "14e4:1760", ports: [a0, a1, a2, a3, a4, a5, a6, a7]}'
NVIDIA = '{hosts: "nv-[0-1]", server: dgx-h100}'
UNKNOWN = '{hosts: "x-[0-1]", ports: [x0, x1, x2, x3, x4, x5, x6, x7]}'
GROUPS = {"amd": AMD, "nvidia": NVIDIA, "both": f"{AMD}, {NVIDIA}", "unknown": UNKNOWN}


def plan_of(groups: str) -> Plan:
    return compute_plan(load_fabric(FABRIC.format(nodes=GROUPS[groups]).encode(), "fabric.yaml").fabric, {})


@pytest.mark.parametrize(
    ("groups", "charts", "plugins"),
    [
        ("amd", [], ["a device plugin that offers amd.com/gpu"]),
        ("nvidia", ["nvidia-gpu-operator"], []),
        ("both", ["nvidia-gpu-operator"], ["a device plugin that offers amd.com/gpu"]),
        ("unknown", ["nvidia-gpu-operator"], []),
    ],
)
def test_nvidias_operator_is_installed_for_nvidias_gpus(groups: str, charts: list[str], plugins: list[str]) -> None:
    stack, plan = load_stack("native"), plan_of(groups)
    assert [chart.component for chart in list_charts(stack, plan)] == charts
    figures = compare_stack(stack, plan).figures
    assert figures is not None
    assert list(figures.operators) == plugins


@pytest.mark.parametrize(
    ("groups", "resource", "count", "codes"),
    [
        ("amd", "nvidia.com/gpu", 8, ["pod-gpu-of-other-vendor"]),
        ("amd", "amd.com/gpu", 8, []),
        ("amd", "amd.com/gpu", 16, ["pod-more-gpus-than-a-node"]),
        ("amd", "amd.com/gpu", "$(GPUS)", []),
        ("nvidia", "nvidia.com/mig-1g.10gb", 56, []),
        ("both", "nvidia.com/gpu", 8, []),
        ("unknown", "amd.com/gpu", 16, []),
    ],
)
def test_a_pod_for_gpus_that_no_node_has_is_told(
    groups: str, resource: str, count: int | str, codes: list[str]
) -> None:
    requirements = build_requirements(load_stack("native"), plan_of(groups))
    container = {"name": "a", "image": "a", "resources": {"limits": {resource: count}}}
    pod: dict[str, Any] = {"spec": {"containers": [container]}}
    notes = [note for note in inject_rails(copy.deepcopy(pod), requirements) if "gpu" in note.code]
    assert [note.code for note in notes] == codes


_UNCOUNTED = {"pod", "daemonset", "trainjob", "trainingruntime", "clustertrainingruntime"}
COUNTED = sorted(KINDS.keys() - _UNCOUNTED)
"""Kinds whose manifest says how many pods there are; a TrainJob's template is another object's."""


@pytest.mark.parametrize("nodes", [4, 5])
@pytest.mark.parametrize("name", COUNTED)
def test_a_job_with_more_gpus_than_all_nodes_have_is_told(name: str, nodes: int) -> None:
    plan = plan_of("amd")
    requirements = build_requirements(load_stack("native"), plan)
    params = build_job_parameters(plan, requirements, "a", "image", nodes)
    notes = [str(note) for note in build_job(KINDS[name], requirements, params).notes if "gpus" in note.code]
    message = (
        "different: all pods together ask for 40 amd.com/gpu, the nodes have 32; some pods stay pending, and a job"
    )
    assert [note.partition(" that starts")[0] for note in notes] == ([message] if nodes > 4 else [])


@pytest.mark.parametrize(
    ("replicas", "gpus", "total"),
    [
        (5, 8, "40"),
        (5, "8", "40"),
        (4, "8", None),
        ("5", 8, None),
        ("$(NODES)", 8, None),
        (None, 8, None),
        (-5, 8, None),
        pytest.param(10**4000, "1e30", f"1.{'0' * 27}E+4030", id="more than any number"),
    ],
)
def test_pods_and_gpus_are_counted_as_the_api_reads_them(replicas: object, gpus: object, total: str | None) -> None:
    requirements = build_requirements(load_stack("native"), plan_of("amd"))
    container = {"name": "a", "image": "a", "resources": {"limits": {"amd.com/gpu": gpus}}}
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    job = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": spec}
    notes = [note for job in compare_jobs([job], requirements) for note in job.notes if "gpus-than-nodes" in note.code]
    expected = [] if total is None else [f"all pods together ask for {total} amd.com/gpu, the nodes have 32"]
    assert [note.difference for note in notes] == expected


def run(folder: Path, groups: str, *arguments: str) -> Result:
    path = folder / "fabric.yaml"
    path.write_text(FABRIC.format(nodes=GROUPS[groups]))
    return CliRunner().invoke(cli, ["job", "new", *arguments, "-f", str(path), "--stack", "native"])


@pytest.mark.parametrize(("resource", "nodes"), [("amd.com/gpu", 4), ("nvidia.com/gpu", 2)])
def test_a_new_job_takes_the_nodes_that_have_its_gpus(tmp_path: Path, resource: str, nodes: int) -> None:
    result = run(tmp_path, "both", "jobset", "--image", "i", "--gpu-resource", resource)
    [job] = [document for document in yaml.safe_load_all(result.stdout) if document["kind"] == "JobSet"]
    template = job["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert template["parallelism"] == nodes
    assert template["template"]["spec"]["containers"][0]["resources"]["limits"][resource] == 8


@pytest.mark.parametrize(
    ("groups", "arguments", "message"),
    [
        ("both", (), "name it with --gpu-resource: amd.com/gpu (4 nodes), nvidia.com/gpu (2 nodes)"),
        ("amd", ("--gpu-resource", "nvidia.com/gpu"), "the nodes have amd.com/gpu (4 nodes)"),
        ("both", ("--gpu-resource", "amd.com/gpu", "--node-count", "5"), "has 4 with these rails and GPUs"),
    ],
)
def test_a_new_job_of_no_gpus_is_refused(tmp_path: Path, groups: str, arguments: tuple[str, ...], message: str) -> None:
    result = run(tmp_path, groups, "jobset", "--image", "i", *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_queue_is_for_the_gpus_of_all_vendors(tmp_path: Path) -> None:
    result = run(tmp_path, "both", "kueue", "--name", "rails", "--gpu-resource", "amd.com/gpu")
    assert (result.exit_code, "a quota for the GPUs of each vendor" in result.output) == (2, True)


def test_a_queue_counts_the_gpus_of_each_vendor(tmp_path: Path) -> None:
    result = run(tmp_path, "both", "kueue", "--name", "rails")
    [queue] = [document for document in yaml.safe_load_all(result.stdout) if document["kind"] == "ClusterQueue"]
    [group] = queue["spec"]["resourceGroups"]
    quotas = {entry["name"]: entry["nominalQuota"] for entry in group["flavors"][0]["resources"]}
    assert (quotas["amd.com/gpu"], quotas["nvidia.com/gpu"]) == (32, 16)
    assert {"amd.com/gpu", "nvidia.com/gpu"} < set(group["coveredResources"])
