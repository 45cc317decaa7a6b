from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, build_params, cases, lost, template
from trackbed.cluster.jobs.editing.job_file import JobFile
from trackbed.cluster.jobs.inject import find_stray_rails, inject_rails
from trackbed.cluster.jobs.jobs import compare_jobs, inject_into_jobs
from trackbed.cluster.jobs.kinds import KINDS, build_job
from trackbed.cluster.jobs.kinds.kind import JobContext, JobKind, patch_job
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.yaml_text import render_documents

_CASES = list(cases())
EVERY = pytest.mark.parametrize(("kind", "wanted"), [case[1:] for case in _CASES], ids=[case[0] for case in _CASES])
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
PARAMS = build_params(PLAIN)


@EVERY
def test_a_new_job_has_all_that_the_plan_gives(kind: JobKind, wanted: PodRequirements) -> None:
    objects, notes = build_job(kind, wanted, build_params(wanted))
    before = copy.deepcopy(objects)
    assert notes == []
    assert [job.notes for job in inject_into_jobs(objects, wanted)] == [
        [] for job in objects if job["kind"] not in BESIDE
    ]
    assert objects == before


BESIDE = {"Service", "ConfigMap"}


@EVERY
def test_templates_with_rails_are_whole_and_the_others_have_none(kind: JobKind, wanted: PodRequirements) -> None:
    for job_template in kind.iter_templates(build_job(kind, wanted, build_params(wanted))[0][-1], wanted.gpu_resource):
        assert (inject_rails if job_template.gets_rails else find_stray_rails)(job_template.template, wanted) == []


def _written(kind: JobKind, wanted: PodRequirements) -> str:
    """A user's file: a new job without rails, with comments and a field that nobody knows."""
    text = "".join(render_documents(kind.build(build_params(wanted))))
    numbers = iter(range(1000))
    text = re.sub(r"(?m)^( *)(- )?(name|kind|spec|image|template|containers):.*$", r"\g<0>  # c{}", text)
    text = re.sub(r"# c\{\}", lambda _: f"# c{next(numbers)}.", text)
    return re.sub(r"(?m)^spec:", "future: {a: 0o17, b: [~, 'x']} # kept.\nspec:", text)


@EVERY
def test_patching_a_file_keeps_all_that_was_there(kind: JobKind, wanted: PodRequirements) -> None:
    text = _written(kind, wanted)
    file = JobFile(text.encode(), "job.yaml")
    before = copy.deepcopy(file.documents)
    inject_into_jobs(file.documents, wanted)
    after = file.render()
    assert [lost(item, other) for item, other in zip(before, file.documents, strict=True)] == [[] for _ in before]
    comments = re.findall(r"# \w+\.", text)
    assert len(comments) > 3
    assert sorted(re.findall(r"# \w+\.", after)) == sorted(comments)


@EVERY
def test_patching_a_file_twice_gives_the_same_text(kind: JobKind, wanted: PodRequirements) -> None:
    texts = [_written(kind, wanted)]
    for _ in range(2):
        file = JobFile(texts[-1].encode(), "job.yaml")
        inject_into_jobs(file.documents, wanted)
        texts.append(file.render())
    assert texts[0] != texts[1]
    assert texts[1] == texts[2]


def _added(before: Any, after: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to all that stands in `after` and not in `before`, parts of new things too."""
    if isinstance(after, dict):
        for key, value in after.items():
            known = isinstance(before, dict) and key in before
            if not known:
                yield (*path, key)
            yield from _added(before[key] if known else None, value, (*path, key))
    elif isinstance(after, list):
        for index, value in enumerate(after):
            held = [item for item in before or () if not lost(item, value)]
            if not held:
                yield (*path, index)
            yield from _added(held[0] if held else None, value, (*path, index))


def _without(item: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(item)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    return changed


def _means_nothing(path: tuple[Any, ...]) -> bool:
    """Requests follow limits; a folder may be mounted writable; a mount without a name is refused by the API itself."""
    return "requests" in path or path[-1] == "readOnly" or (path[-3:-2], path[-1]) == (("volumeMounts",), "name")


ALONE = [case for case in _CASES if case[1].name in {"pod", "mpijob", "rayjob", "trainingruntime"}]


@pytest.mark.parametrize(("kind", "wanted"), [case[1:] for case in ALONE], ids=[case[0] for case in ALONE])
def test_each_single_thing_that_is_taken_away_is_found(kind: JobKind, wanted: PodRequirements) -> None:
    bare, whole = kind.build(build_params(wanted))[-1], build_job(kind, wanted, build_params(wanted))[0][-1]
    paths = [path for path in _added(bare, whole) if not _means_nothing(path)]
    assert len(paths) > 10
    silent = [path for path in paths if not compare_jobs([_without(whole, path)], wanted)[0].notes]
    assert silent == []


def test_comparing_changes_nothing() -> None:
    bare = KINDS["job"].build(PARAMS)
    before = copy.deepcopy(bare)
    assert compare_jobs(bare, PLAIN)[0].notes
    assert bare == before


def _job(kind: str, **spec: Any) -> dict[str, Any]:
    known = KINDS[kind]
    return {"apiVersion": known.api_versions[0], "kind": known.kind, "metadata": {"name": "x"}, "spec": spec}


def _plain_pod() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c"}]}}


WHO: dict[str, tuple[dict[str, Any], dict[str, bool]]] = {
    "PyTorchJob: master too": (
        _job(
            "pytorchjob", pytorchReplicaSpecs={"Master": {"template": template()}, "Worker": {"template": template()}}
        ),
        {"spec.pytorchReplicaSpecs.Master.template": True, "spec.pytorchReplicaSpecs.Worker.template": True},
    ),
    "MPIJob: workers": (
        _job("mpijob", mpiReplicaSpecs={"Launcher": {"template": _plain_pod()}, "Worker": {"template": template()}}),
        {"spec.mpiReplicaSpecs.Launcher.template": False, "spec.mpiReplicaSpecs.Worker.template": True},
    ),
    "MPIJob: a launcher that works": (
        _job("mpijob", runLauncherAsWorker=True, mpiReplicaSpecs={"Launcher": {"template": template()}}),
        {"spec.mpiReplicaSpecs.Launcher.template": True},
    ),
    "LeaderWorkerSet: leader too": (
        _job("leaderworkerset", leaderWorkerTemplate={"leaderTemplate": template(), "workerTemplate": template()}),
        {"spec.leaderWorkerTemplate.leaderTemplate": True, "spec.leaderWorkerTemplate.workerTemplate": True},
    ),
    "JobSet: those with GPUs": (
        _job(
            "jobset",
            replicatedJobs=[
                {"name": "driver", "template": {"spec": {"template": _plain_pod()}}},
                {"name": "work", "template": {"spec": {"template": template()}}},
            ],
        ),
        {
            "spec.replicatedJobs[0].template.spec.template": False,
            "spec.replicatedJobs[1].template.spec.template": True,
        },
    ),
    "JobSet: all where none has GPUs": (
        _job("jobset", replicatedJobs=[{"name": "a", "template": {"spec": {"template": _plain_pod()}}}]),
        {"spec.replicatedJobs[0].template.spec.template": True},
    ),
    "Volcano: those with GPUs": (
        _job("volcanojob", tasks=[{"template": template()}, {"template": _plain_pod()}]),
        {"spec.tasks[0].template": True, "spec.tasks[1].template": False},
    ),
    "RayCluster: workers": (
        _job("raycluster", headGroupSpec={"template": _plain_pod()}, workerGroupSpecs=[{"template": _plain_pod()}]),
        {"spec.headGroupSpec.template": False, "spec.workerGroupSpecs[0].template": True},
    ),
    "RayCluster: a head with GPUs": (
        _job("raycluster", headGroupSpec={"template": template()}),
        {"spec.headGroupSpec.template": True},
    ),
    "RayJob on a cluster that is there": (_job("rayjob", clusterSelector={"a": "b"}), {}),
    "CronJob": (
        _job("cronjob", jobTemplate={"spec": {"template": template()}}),
        {"spec.jobTemplate.spec.template": True},
    ),
    "TrainingRuntime: the step that trains": (
        _job(
            "trainingruntime",
            template={
                "spec": {
                    "replicatedJobs": [
                        {"name": step, "template": {"metadata": {"labels": label}, "spec": {"template": template()}}}
                        for step, label in (
                            ("fetch", {}),
                            ("node", {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}),
                        )
                    ]
                }
            },
        ),
        {
            "spec.template.spec.replicatedJobs[0].template.spec.template": False,
            "spec.template.spec.replicatedJobs[1].template.spec.template": True,
        },
    ),
}


@pytest.mark.parametrize(("job", "templates"), WHO.values(), ids=WHO)
def test_rails_go_to_the_pods_that_need_them(job: dict[str, Any], templates: dict[str, bool]) -> None:
    kind = next(kind for kind in KINDS.values() if kind.kind == job["kind"] and job["apiVersion"] in kind.api_versions)
    assert {
        job_template.path: job_template.gets_rails for job_template in kind.iter_templates(job, GPU_RESOURCE)
    } == templates


def test_new_jobs_take_all_nodes_and_gpus() -> None:
    assert KINDS["mpijob"].build(PARAMS)[-1]["spec"]["slotsPerWorker"] == 2
    roles = KINDS["pytorchjob"].build(PARAMS)[-1]["spec"]["pytorchReplicaSpecs"]
    assert {role: item["replicas"] for role, item in roles.items()} == {"Master": 1, "Worker": 2}


@OF_EACH_KIND
def test_one_node_is_enough(kind: JobKind) -> None:
    job = kind.build(PARAMS.__class__("x", "i", 1, 8))[-1]
    assert patch_job(kind, job, JobContext(PLAIN, [job])) or kind.name == "trainjob"


@pytest.mark.parametrize("mount_path", ["/data", "/dev/shm"])  # noqa: S108 - inside the pod
def test_the_volume_claims_of_a_stateful_set_keep_their_names(mount_path: str) -> None:
    claims = [{"metadata": {"name": "dshm"}}]
    pods = template(volumeMounts=[{"name": "dshm", "mountPath": mount_path}])
    job = {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"volumeClaimTemplates": claims, "template": pods}}
    inject_into_jobs([job], PLAIN)
    names = [volume["name"] for volume in pods["spec"].get("volumes", [])]
    assert names == (["dshm-rails"] if mount_path == "/data" else [])
