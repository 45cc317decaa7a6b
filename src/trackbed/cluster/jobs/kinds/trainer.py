"""Kubeflow Trainer 2 (trainer.kubeflow.org/v1alpha1): a TrainJob names a runtime, the runtime holds the pod template.

Rails belong in the runtime. A TrainJob whose runtime is not in the same file gets what its API lets it carry: resources
and variables in `spec.trainer`, the rest in an entry of `spec.runtimePatches`. Claims and the host's network cannot be
put there (the API has no field for them), which is said as a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trackbed.cluster.jobs import resources
from trackbed.cluster.jobs.inject import inject
from trackbed.cluster.jobs.kinds.job_set import replicated
from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, namespace, pod
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import torchrun
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, NotAJobError, items, listed, look, mapping, names
from trackbed.cluster.stacks.objects import Manifest, manifest

API = "trainer.kubeflow.org/v1alpha1"
MANAGER = "trackbed.dev/rails"
"""Who our entry of runtimePatches belongs to."""
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of the replicated job that trains, as against those that fetch data and model."""
_NODE = "node"
"""Name of that replicated job and of its container, fixed by the Trainer."""
_TEMPLATE = ("template", "spec", "template")


def _templates(runtime: Mapping) -> Iterator[Template]:
    groups = items(look(runtime, "spec", "template", "spec"), "replicatedJobs")
    steps = [look(one, "template", "metadata", "labels").get(_STEP) for one in groups]
    for step, one in zip(
        steps, replicated(look(runtime, "spec", "template", "spec"), "spec.template.spec"), strict=True
    ):
        yield one._replace(gets_rails=step == "trainer") if "trainer" in steps else one


def _none(_: Mapping) -> Iterator[Template]:
    return iter(())


def _patch(job: Mapping, wanted: PodRequirements, beside: Sequence[Mapping]) -> list[Note]:
    if any(_is_runtime(one, job) for one in beside):
        return [note.below("spec.trainer") for note in _beside_runtime(job, wanted)]
    return [note.below("spec") for note in (*_impossible(wanted), *_carried(job, wanted))]


def _is_runtime(one: Mapping, job: Mapping) -> bool:
    reference = look(job, "spec", "runtimeRef")
    kind = reference.get("kind") or "ClusterTrainingRuntime"
    return one.get("kind") == kind and look(one, "metadata").get("name") == reference.get("name")


def _beside_runtime(job: Mapping, wanted: PodRequirements) -> Iterator[Note]:
    """The runtime has the rails; but a job that states resources replaces the runtime's, so they must name rails."""
    held = look(job, "spec", "trainer", "resourcesPerNode")
    if not held:
        return
    one: dict[str, Any] = {"name": _NODE, "resources": held}
    claims = [{"name": claim.name, "resourceClaimTemplateName": claim.template} for claim in wanted.access.claims]
    yield from resources.ask({"containers": [one], "resourceClaims": claims}, one, wanted.access)


def _impossible(wanted: PodRequirements) -> Iterator[Note]:
    access = wanted.access
    for what, asked in (("claims", bool(access.claims)), ("hostNetwork", access.host_network)):
        if asked:
            advice = "put rails on its runtime: trackbed job new clustertrainingruntime"
            told = f"a TrainJob cannot carry {what}"
            yield Note("different", "pod-trainjob-claims-in-patch", told, f"the pods get no rails; {advice}")


def _carried(job: Mapping, wanted: PodRequirements) -> Iterator[Note]:
    """Inject into a template put together from where a TrainJob has its parts, and put the parts back."""
    access = msgspec.structs.replace(wanted.access, claims=(), host_network=False)
    trainer = mapping(job, "spec", "trainer")
    if access.gpu_resource and access.gpu_resource not in set(names({"resources": look(trainer, "resourcesPerNode")})):
        told = f"resourcesPerNode does not ask for {access.gpu_resource}"
        breaks = "it replaces the runtime's resources, so the pods get rails and no GPU; state the GPUs there"
        yield Note("different", "pod-trainjob-without-gpus", told, breaks, "trainer.resourcesPerNode")
    entry = _entry(job)
    view = _assembled(trainer, entry)
    yield from inject(view, msgspec.structs.replace(wanted, access=access), namespace(job))
    _put_back(view, trainer, entry)


def _entry(job: Mapping) -> Mapping:
    """Our entry of runtimePatches; made where there is none."""
    patches = listed(mapping(job, "spec"), "runtimePatches")
    if not any(one.get("manager") == MANAGER for one in items(mapping(job, "spec"), "runtimePatches")):
        patches.append({"manager": MANAGER})
    entry: Mapping = next(one for one in patches if one.get("manager") == MANAGER)
    return entry


def _named(parent: Mapping, key: str) -> Mapping:
    """The element called node of a list; made where there is none."""
    held = listed(parent, key)
    if not any(one.get("name") == _NODE for one in items(parent, key)):
        held.append({"name": _NODE})
    found: Mapping = next(one for one in held if one.get("name") == _NODE)
    return found


def _pod_of(entry: Mapping) -> Mapping:
    group = _named(mapping(entry, "trainingRuntimeSpec", "template", "spec"), "replicatedJobs")
    return mapping(group, *_TEMPLATE)


def _assembled(trainer: Mapping, entry: Mapping) -> dict[str, Any]:
    template = _pod_of(entry)
    one = {**_named(mapping(template, "spec"), "containers")}
    one |= {key: trainer[field] for key, field in _FIELDS if trainer.get(field) is not None}
    return {**template, "spec": {**template["spec"], "containers": [one]}}


_FIELDS = (("resources", "resourcesPerNode"), ("env", "env"))
"""Field of a container -> where a TrainJob has it."""


def _put_back(view: dict[str, Any], trainer: Mapping, entry: Mapping) -> None:
    template = _pod_of(entry)
    one = view["spec"]["containers"][0]
    for key, field in _FIELDS:
        if key in one:
            trainer[field] = one.pop(key)
    _named(template["spec"], "containers").update(one)
    template["spec"].update({key: value for key, value in view["spec"].items() if key != "containers"})
    template.update({key: value for key, value in view.items() if key != "spec"})


def _runtime(kind: str, name: str, shape: Shape) -> Manifest:
    group = {
        "name": _NODE,
        "template": {
            "metadata": {"labels": {_STEP: "trainer"}},
            "spec": {"template": {"spec": pod(container(shape, torchrun(), _NODE))}},
        },
    }
    spec = {
        "mlPolicy": {"numNodes": shape.nodes, "torch": {}},
        "template": {"spec": {"replicatedJobs": [group]}},
    }
    return manifest(API, kind, name, spec=spec)


def _train_job(shape: Shape) -> list[Manifest]:
    """The runtime carries image, command and rails; the Trainer tells torchrun the rest by PET_ variables."""
    runtime = _runtime("ClusterTrainingRuntime", shape.name, shape)
    spec = {
        "runtimeRef": {"name": shape.name, "kind": "ClusterTrainingRuntime"},
        "trainer": {"numNodes": shape.nodes, "numProcPerNode": shape.gpus},
    }
    return [runtime, manifest(API, "TrainJob", shape.name, spec=spec)]


def _alone(kind: str) -> JobKind:
    def skeleton(shape: Shape) -> list[Manifest]:
        return [_runtime(kind, shape.name, shape)]

    def no_queue(_: Mapping, __: str) -> None:
        raise NotAJobError("a runtime waits in no queue, the jobs that name it do; leave the queue out", "")

    return JobKind(kind.lower(), kind, (API,), _templates, skeleton, queue=no_queue)


KINDS: tuple[JobKind, ...] = (
    JobKind("trainjob", "TrainJob", (API,), _none, _train_job, _patch),
    _alone("TrainingRuntime"),
    _alone("ClusterTrainingRuntime"),
)
