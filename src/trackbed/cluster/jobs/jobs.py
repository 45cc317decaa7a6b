"""Injection of rails into all jobs of a manifest file.

Where pods of the file use GPUs, pods without GPUs get no rails: they would take devices from those that need them.
Objects of kinds that are not known are searched for pods with GPUs, by the schema of their CRD if the file has it and
else by the shape of pods.
"""

from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any, NamedTuple

from trackbed.cluster.jobs.kinds import ALL_KINDS, find_kind, find_kind_of_other_version
from trackbed.cluster.jobs.kinds.kind import (
    JobContext,
    JobKind,
    Template,
    patch_job,
    patch_templates,
    uses_gpus,
)
from trackbed.cluster.jobs.kinds.pod_schemas import PodSchemas, find_templates_by_schema, index_pod_schemas
from trackbed.cluster.jobs.kinds.pod_specs import find_templates, view_path
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    NotAJobError,
    copy_plain,
    iter_resource_names,
    read_mapping,
    read_mappings,
)
from trackbed.fabric.gpus import is_gpu_resource


class PatchedJob(NamedTuple):
    """The title of a job ("KIND NAME"), and notes on its differences from the plan."""

    title: str
    notes: list[Note]


def inject_into_jobs(
    documents: Sequence[Any], requirements: PodRequirements, pod_specs: Sequence[str] = ()
) -> list[PatchedJob]:
    """Inject rails into every job in the documents of a file, in place; other objects are left alone.

    `pod_specs` are paths of pod templates or pod specs in objects of kinds that are not known.

    Raises:
        NotAJobError: There is no job, or a job does not match the schema of its kind, or its version is unsupported.
    """
    objects = [manifest for document in documents for manifest in _flatten_list(document)]
    kinds = [_find_supported_kind(manifest) for manifest in objects]
    schemas = index_pod_schemas(objects)
    templates = [
        [] if kind else _list_templates(manifest, pod_specs, schemas)
        for manifest, kind in zip(objects, kinds, strict=True)
    ]
    _check_paths(pod_specs, templates)
    has_gpus = any(map(_has_gpus, objects, kinds, templates))
    context = JobContext(requirements, objects, has_gpus)
    jobs = []
    for manifest, kind, other_templates in zip(objects, kinds, templates, strict=True):
        if kind or other_templates:
            jobs.append(_patch_named_job(kind, other_templates, manifest, context))
        elif notes := list(_find_unknown_pods(manifest)):
            jobs.append(PatchedJob(_get_title(manifest), notes))
    if not any(kinds) and not any(templates):
        raise NotAJobError(f"no job that can have rails; {_describe_jobs(jobs)}", "")
    return jobs


def compare_jobs(
    documents: Sequence[Any], requirements: PodRequirements, pod_specs: Sequence[str] = ()
) -> list[PatchedJob]:
    """Return the differences between the jobs and the plan; the documents are not changed."""
    return inject_into_jobs(copy_plain(list(documents)), requirements, pod_specs)


def describe_supported_kinds() -> str:
    """Return the supported kinds and versions as comma-separated text for messages."""
    return ", ".join(f"{kind.kind} ({' or '.join(kind.api_versions)})" for kind in ALL_KINDS)


def _describe_jobs(unknown_jobs: list[PatchedJob]) -> str:
    """Return what there is in place of jobs, as text."""
    if unknown_jobs:
        return "; ".join(f"{job.title}: {note}" for job in unknown_jobs for note in job.notes[:1])
    return f"there are {describe_supported_kinds()}, and other kinds with pods that use GPUs"


def _flatten_list(document: object) -> list[Mapping]:
    """Return the items of a v1 List, or any other object itself; empty for a document that is no mapping."""
    if not isinstance(document, dict):
        return []
    if document.get("kind") == "List" and document.get("apiVersion") == "v1":
        return read_mappings(document, "items")
    return [document]


def _find_supported_kind(manifest: Mapping) -> JobKind | None:
    """Return the kind of a job; None if the object is not a job. Raises NotAJobError for an unsupported version."""
    other_kind = find_kind_of_other_version(manifest)
    if other_kind is not None:
        versions = " or ".join(other_kind.api_versions)
        raise NotAJobError(
            f"{other_kind.kind} of {manifest.get('apiVersion')} is not known; there is {versions}", "apiVersion"
        )
    return find_kind(manifest)


def _list_templates(manifest: Mapping, pod_specs: Sequence[str], schemas: PodSchemas) -> list[Template]:
    """Return the pod templates of an object of a kind that is not known: those at the paths, else those with GPUs."""
    templates = [template for path in pod_specs if (template := view_path(manifest, path))]
    schema = schemas.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    return templates or list(find_templates_by_schema(manifest, schema) if schema else find_templates(manifest))


def _check_paths(pod_specs: Sequence[str], templates: Sequence[list[Template]]) -> None:
    """Raise NotAJobError for a path where no object has pods."""
    for path in pod_specs:
        if not any(template.path == path.strip(".") for group in templates for template in group):
            raise NotAJobError("no object has a pod template or pod spec there", path)


def _has_gpus(manifest: Mapping, kind: JobKind | None, templates: list[Template]) -> bool:
    """Return whether pods of an object use GPUs; False for a job whose fields have wrong types."""
    try:
        job_templates = kind.iter_templates(manifest) if kind else iter(templates)
        return any(uses_gpus(read_mapping(job_template.template, "spec")) for job_template in job_templates)
    except NotAJobError:
        return False


def _find_unknown_pods(manifest: Mapping) -> Iterator[Note]:
    """Yield notes on requests for GPUs in an object where no pod spec was recognised."""
    for path, name in _find_gpu_requests(manifest, ""):
        yield Note(
            "different",
            "pod-of-unknown-kind",
            f"asks for {name} where no pod spec was recognised",
            "its pods get no rails; name the path of their pod spec, or let the webhook add rails to the pods",
            path,
        )


def _find_gpu_requests(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each mapping `resources` that requests GPUs, and the name of the resource."""
    if isinstance(value, MutableSequence):
        for index, item in enumerate(value):
            yield from _find_gpu_requests(item, f"{path}[{index}]")
    elif isinstance(value, MutableMapping):
        if isinstance(value.get("resources"), MutableMapping):
            gpus = [name for name in _read_resource_names(value) if is_gpu_resource(name)]
            yield from [(f"{path}.resources", name) for name in gpus[:1]]
        for key in value:
            yield from _find_gpu_requests(value[key], f"{path}.{key}".removeprefix("."))


def _read_resource_names(container: Mapping) -> list[str]:
    try:
        return list(iter_resource_names(container))
    except NotAJobError:  # `resources` is something else in this kind
        return []


def _patch_named_job(
    kind: JobKind | None, templates: list[Template], manifest: Mapping, context: JobContext
) -> PatchedJob:
    """Inject rails into a job, in place; errors are prefixed with the job's kind and name."""
    title = _get_title(manifest)
    try:
        if kind:
            return PatchedJob(title, patch_job(kind, manifest, context))
        return PatchedJob(title, patch_templates(templates, manifest, context._replace(has_gpus=False)))
    except NotAJobError as error:
        raise NotAJobError(f"{title}: {error}", "") from error


def _get_title(manifest: Mapping) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{manifest.get('kind')} {name or '(without a name)'}"
