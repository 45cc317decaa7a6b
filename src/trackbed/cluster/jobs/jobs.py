"""Injection of rails into all jobs of a manifest file.

Where pods of the file use GPUs, pods without GPUs get no rails: they would take devices from those that need them.
Objects of kinds that are not known are searched for jobs of known kinds, and for pods with GPUs, by the schema of their
CRD if the file has it and else by the shape of pods.
"""

from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from typing import Any, NamedTuple

from trackbed.cluster.jobs.kinds import ALL_KINDS, find_kind, find_kind_of_other_version
from trackbed.cluster.jobs.kinds.gpu_requests import find_unknown_pods, is_at_or_below
from trackbed.cluster.jobs.kinds.kind import (
    JobContext,
    JobKind,
    Template,
    patch_job,
    patch_templates,
)
from trackbed.cluster.jobs.kinds.pod_schemas import PodSchemas, find_templates_by_schema, index_pod_schemas
from trackbed.cluster.jobs.kinds.pod_specs import find_templates, view_path
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    NotAJobError,
    copy_plain,
    read_mappings,
)


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
    schemas = index_pod_schemas(objects)
    parts = [part for manifest in objects for part in _split_object(manifest, requirements, pod_specs, schemas)]
    _check_paths(pod_specs, parts)
    has_gpus = any(_has_gpus(part, requirements.gpu_resource) for part in parts)
    context = JobContext(requirements, [part.manifest for part in parts], has_gpus)
    jobs = []
    for part in parts:
        if part.is_job:
            jobs.append(_patch_part(part, context))
        elif notes := list(find_unknown_pods(part.manifest, requirements.gpu_resource, part.job_paths)):
            jobs.append(PatchedJob(part.title, notes))
    if not any(part.is_job for part in parts):
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
    """Return the items of a v1 List and of Lists in it, or another object; empty for a document that is no mapping."""
    if not isinstance(document, dict):
        return []
    if document.get("kind") == "List" and document.get("apiVersion") == "v1":
        return [manifest for item in read_mappings(document, "items") for manifest in _flatten_list(item)]
    return [document]


class _FileObject(NamedTuple):
    """An object of a file without the jobs that it contains, or a job that it contains."""

    title: str
    manifest: Mapping
    kind: JobKind | None = None
    templates: tuple[Template, ...] = ()
    """Pod templates of an object of a kind that is not known."""
    job_paths: tuple[str, ...] = ()
    """Paths of the jobs in an object of a kind that is not known."""
    path: str = ""
    """Path of a job in the object that contains it."""
    namespace: str | None = None
    """Namespace of the object that contains a job."""

    @property
    def is_job(self) -> bool:
        return self.kind is not None or bool(self.templates)


def _split_object(
    manifest: Mapping, requirements: PodRequirements, pod_specs: Sequence[str], schemas: PodSchemas
) -> list[_FileObject]:
    """Return an object, and the jobs with GPUs that an object of a kind that is not known contains."""
    title, gpu_resource = _get_title(manifest), requirements.gpu_resource
    if kind := _find_supported_kind(manifest):
        return [_FileObject(title, manifest, kind)]
    if named := tuple(template for path in pod_specs if (template := view_path(manifest, path))):
        return [_FileObject(title, manifest, templates=named)]
    keys = (key for key in manifest if key not in {"metadata", "status"})
    jobs = [job for key in keys for job in _find_jobs(manifest[key], str(key), gpu_resource)]
    schema = schemas.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    templates = (
        find_templates_by_schema(manifest, schema, gpu_resource) if schema else find_templates(manifest, gpu_resource)
    )
    paths = tuple(job.path for job in jobs)
    others = tuple(template for template in templates if not any(is_at_or_below(template.path, path) for path in paths))
    metadata = manifest.get("metadata")
    namespace = str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""
    return [
        _FileObject(title, manifest, templates=others, job_paths=paths),
        *(job._replace(title=f"{job.title} in {title}", namespace=namespace or None) for job in jobs),
    ]


def _find_jobs(value: object, path: str, gpu_resource: str) -> Iterator[_FileObject]:
    """Yield the jobs of known kinds with GPUs in a value."""
    if isinstance(value, MutableSequence):
        for index, item in enumerate(value):
            yield from _find_jobs(item, f"{path}[{index}]", gpu_resource)
    elif isinstance(value, MutableMapping):
        kind = find_kind(value) if isinstance(value.get("spec"), MutableMapping) else None
        job = _FileObject(_get_title(value), value, kind, path=path)
        if kind and _has_gpus(job, gpu_resource):
            yield job
            return
        for key in value:
            yield from _find_jobs(value[key], f"{path}.{key}", gpu_resource)


def _find_supported_kind(manifest: Mapping) -> JobKind | None:
    """Return the kind of a job; None if the object is not a job. Raises NotAJobError for an unsupported version."""
    other_kind = find_kind_of_other_version(manifest)
    if other_kind is not None:
        versions = " or ".join(other_kind.api_versions)
        raise NotAJobError(
            f"{other_kind.kind} of {manifest.get('apiVersion')} is not known; there is {versions}", "apiVersion"
        )
    return find_kind(manifest)


def _check_paths(pod_specs: Sequence[str], parts: Sequence[_FileObject]) -> None:
    """Raise NotAJobError for a path where no object has pods."""
    for path in pod_specs:
        if not any(template.path == path.strip(".") for part in parts for template in part.templates):
            raise NotAJobError("no object has a pod template or pod spec there", path)


def _has_gpus(part: _FileObject, gpu_resource: str) -> bool:
    """Return whether pods of an object use GPUs; False for a job whose fields have wrong types."""
    try:
        templates = part.kind.iter_templates(part.manifest, gpu_resource) if part.kind else part.templates
        return any(template.uses_gpus(gpu_resource) for template in templates)
    except NotAJobError:
        return False


def _patch_part(part: _FileObject, context: JobContext) -> PatchedJob:
    """Inject rails into a job, in place; errors are prefixed with the job's kind and name."""
    context = context._replace(namespace=part.namespace, job_paths=part.job_paths)
    try:
        if part.kind:
            notes = patch_job(part.kind, part.manifest, context)
        else:
            notes = patch_templates(part.templates, part.manifest, context._replace(has_gpus=False))
    except NotAJobError as error:
        raise NotAJobError(f"{part.title}: {error}", "") from error
    return PatchedJob(part.title, [note.with_parent(part.path) for note in notes])


def _get_title(manifest: Mapping) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{manifest.get('kind')} {name or '(without a name)'}"
