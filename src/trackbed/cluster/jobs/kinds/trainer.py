"""Kubeflow Trainer 2 (trainer.kubeflow.org/v1alpha1): a TrainJob names a runtime, which has the pod template.

Rails belong in the runtime: in the step that trains, with an MPI policy in the nodes that run ranks. If the runtime of
a TrainJob is not in the same file, the TrainJob itself is patched as far as its API permits: resources and variables in
`spec.trainer`, other fields in an entry of `spec.runtimePatches`. There are no fields for resource claims and
hostNetwork; a note reports them if the stack needs them.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from trackbed.cluster.jobs import resources
from trackbed.cluster.jobs.claims import check_namespace
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.kinds.job_set import choose_gpu_users, list_replicated_templates
from trackbed.cluster.jobs.kinds.kind import (
    JobContext,
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    patch_templates,
    read_namespace,
)
from trackbed.cluster.jobs.kinds.mpi_job import export_variables
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import build_torchrun_command
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    NotAJobError,
    ensure_list,
    ensure_mapping,
    find_gpu_resources,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.stacks.objects import Manifest, build_manifest

API = "trainer.kubeflow.org/v1alpha1"
PATCH_MANAGER = "trackbed.dev/rails"
"""Manager of Trackbed's entry in runtimePatches."""
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
"""Label of a replicated job with its step: `trainer` trains; other steps download the data set and the model."""
_TRAINING_JOB = "node"
"""Name that the Trainer requires of the replicated job that trains, and of its container."""
_LAUNCHER = "launcher"
"""Name of the replicated job that starts an MPI job; with `runLauncherAsNode` it runs ranks (isNode in mpi.go)."""
_POD_TEMPLATE = ("template", "spec", "template")
"""Path of the pod template in a replicated job."""


def _iter_templates(runtime: Mapping, gpu_resource: str) -> Iterator[Template]:
    job_set = read_mapping(runtime, "spec", "template", "spec")
    groups = [group for group in read_mappings(job_set, "replicatedJobs") if read_mapping(group, *_POD_TEMPLATE)]
    steps = [read_mapping(group, "template", "metadata", "labels").get(_STEP_LABEL) for group in groups]
    mpi = read_mapping(runtime, "spec", "mlPolicy").get("mpi")
    templates = list_replicated_templates(job_set, "spec.template.spec")
    if mpi is not None:
        yield from (template._replace(gets_rails=_runs_ranks(template, mpi, gpu_resource)) for template in templates)
    elif "trainer" in steps:
        for step, template in zip(steps, templates, strict=True):
            yield template._replace(gets_rails=step == "trainer")
    else:
        yield from choose_gpu_users(templates, gpu_resource)


def _runs_ranks(template: Template, mpi: object, gpu_resource: str) -> bool:
    """Return whether a replicated job runs ranks of an MPI policy: the nodes, and others with GPUs.

    The launcher runs ranks only if the policy says so.
    """
    if template.role == _LAUNCHER:
        return isinstance(mpi, dict) and mpi.get("runLauncherAsNode") is True
    return template.role == _TRAINING_JOB or template.uses_gpus(gpu_resource)


def _patch_runtime(runtime: Mapping, context: JobContext) -> list[Note]:
    """Inject rails into a runtime; with an MPI policy also export the variables in the launcher's command."""
    templates = list(_iter_templates(runtime, context.requirements.gpu_resource))
    notes = patch_templates(templates, runtime, context._replace(has_gpus=False, namespace=None))
    if read_mapping(runtime, "spec", "mlPolicy").get("mpi") is not None:
        for template in templates:
            if template.role == _LAUNCHER:
                notes += map(template.locate, export_variables(template.template, context.requirements))
    return notes


def _patch_job(job: Mapping, context: JobContext) -> list[Note]:
    requirements = context.requirements
    if any(_is_runtime_of_job(manifest, job) for manifest in context.objects):
        notes = (note.with_parent("spec.trainer") for note in _patch_resources_per_node(job, requirements))
        return [*check_namespace(requirements.access, read_namespace(job) or context.namespace), *notes]
    return [
        note.with_parent("spec")
        for note in (*_check_unsupported_fields(requirements), *_patch_without_runtime(job, requirements))
    ]


def _is_runtime_of_job(manifest: Mapping, job: Mapping) -> bool:
    reference = read_mapping(job, "spec", "runtimeRef")
    kind = reference.get("kind") or "ClusterTrainingRuntime"
    return manifest.get("kind") == kind and read_mapping(manifest, "metadata").get("name") == reference.get("name")


def _patch_resources_per_node(job: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Add rails to a TrainJob's resourcesPerNode if it is set, as it replaces the resources of the runtime."""
    job_resources = read_mapping(job, "spec", "trainer", "resourcesPerNode")
    if not job_resources:
        return
    trainer: dict[str, Any] = {"name": _TRAINING_JOB, "resources": job_resources}
    claims = [{"name": claim.name, "resourceClaimTemplateName": claim.template} for claim in requirements.access.claims]
    yield from resources.add_resources({"containers": [trainer], "resourceClaims": claims}, trainer, requirements)


def _check_unsupported_fields(requirements: PodRequirements) -> Iterator[Note]:
    access = requirements.access
    for field, is_needed in (("claims", bool(access.claims)), ("hostNetwork", access.host_network)):
        if is_needed:
            advice = "put rails on its runtime: trackbed job new clustertrainingruntime"
            yield Note(
                "different",
                "pod-trainjob-claims-in-patch",
                f"a TrainJob cannot carry {field}",
                f"the pods get no rails; {advice}",
            )


def _patch_without_runtime(job: Mapping, requirements: PodRequirements) -> Iterator[Note]:
    """Inject rails into a TrainJob: assemble a pod template from its parts, edit it, and split it again."""
    access = msgspec.structs.replace(requirements.access, claims=(), host_network=False)
    trainer = ensure_mapping(job, "spec", "trainer")
    resources_per_node = read_mapping(trainer, "resourcesPerNode")
    if not find_gpu_resources({"resources": resources_per_node}, requirements.gpu_resource):
        yield Note(
            "different",
            "pod-trainjob-without-gpus",
            f"resourcesPerNode does not ask for {requirements.gpu_resource}",
            "it replaces the runtime's resources, so the pods get rails and no GPU; state the GPUs there",
            "trainer.resourcesPerNode",
        )
    entry = _ensure_list_element(ensure_mapping(job, "spec"), "runtimePatches", "manager", PATCH_MANAGER)
    template = _assemble_template(trainer, entry)
    yield from inject_rails(template, msgspec.structs.replace(requirements, access=access), read_namespace(job))
    _split_template(template, trainer, entry)


def _ensure_list_element(parent: Mapping, key: str, field: str, value: str) -> Mapping:
    """Return the mapping in the list at `key` whose `field` has the value; append one if there is none."""
    if not any(element.get(field) == value for element in read_mappings(parent, key)):
        ensure_list(parent, key).append({field: value})
    return next(element for element in read_mappings(parent, key) if element.get(field) == value)


def _ensure_pod_template(runtime_patch: Mapping) -> Mapping:
    """Return the pod template of the training job in an entry of runtimePatches, added if absent."""
    job_set = ensure_mapping(runtime_patch, "trainingRuntimeSpec", "template", "spec")
    group = _ensure_list_element(job_set, "replicatedJobs", "name", _TRAINING_JOB)
    return ensure_mapping(group, "template", "spec", "template")


def _assemble_template(trainer: Mapping, runtime_patch: Mapping) -> dict[str, Any]:
    """Return a pod template from the runtime patch, with resources and variables from `spec.trainer`."""
    template = _ensure_pod_template(runtime_patch)
    trainer_container = {**_ensure_list_element(ensure_mapping(template, "spec"), "containers", "name", _TRAINING_JOB)}
    trainer_container |= {key: trainer[field] for key, field in _FIELDS if trainer.get(field) is not None}
    return {**template, "spec": {**template["spec"], "containers": [trainer_container]}}


_FIELDS = (("resources", "resourcesPerNode"), ("env", "env"))
"""Fields of a container, each with its counterpart in `spec.trainer` of a TrainJob."""


def _split_template(assembled: dict[str, Any], trainer: Mapping, runtime_patch: Mapping) -> None:
    """Write an assembled template back to `spec.trainer` and the runtime patch."""
    template = _ensure_pod_template(runtime_patch)
    trainer_container = assembled["spec"]["containers"][0]
    for key, field in _FIELDS:
        if key in trainer_container:
            trainer[field] = trainer_container.pop(key)
    _ensure_list_element(template["spec"], "containers", "name", _TRAINING_JOB).update(trainer_container)
    template["spec"].update({key: value for key, value in assembled["spec"].items() if key != "containers"})
    template.update({key: value for key, value in assembled.items() if key != "spec"})


def _build_runtime(kind: str, name: str, params: JobParameters) -> Manifest:
    group = {
        "name": _TRAINING_JOB,
        "template": {
            "metadata": {"labels": {_STEP_LABEL: "trainer"}},
            "spec": {
                "template": {"spec": build_pod_spec(build_container(params, build_torchrun_command(), _TRAINING_JOB))}
            },
        },
    }
    spec = {
        "mlPolicy": {"numNodes": params.node_count, "torch": {}},
        "template": {"spec": {"replicatedJobs": [group]}},
    }
    return build_manifest(API, kind, name, spec=spec)


def _build_train_job(params: JobParameters) -> list[Manifest]:
    """Return a runtime with image and command, and its TrainJob; the Trainer sets torchrun's variables PET_*."""
    runtime = _build_runtime("ClusterTrainingRuntime", params.name, params)
    spec = {
        "runtimeRef": {"name": params.name, "kind": "ClusterTrainingRuntime"},
        "trainer": {"numNodes": params.node_count, "numProcPerNode": params.gpus_per_node},
    }
    return [runtime, build_manifest(API, "TrainJob", params.name, spec=spec)]


def _build_runtime_kind(kind: str) -> JobKind:
    def build(params: JobParameters) -> list[Manifest]:
        return [_build_runtime(kind, params.name, params)]

    return JobKind(kind.lower(), kind, (API,), _iter_templates, build, _patch_runtime, _refuse_queue)


def _refuse_queue(_: Mapping, __: str) -> None:
    raise NotAJobError("a runtime is not queued, the jobs that name it are; leave the queue out", "")


KINDS: tuple[JobKind, ...] = (
    JobKind("trainjob", "TrainJob", (API,), lambda _, __: iter(()), _build_train_job, _patch_job),
    _build_runtime_kind("TrainingRuntime"),
    _build_runtime_kind("ClusterTrainingRuntime"),
)
