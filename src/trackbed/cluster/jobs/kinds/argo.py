"""Argo Workflows (argoproj.io/v1alpha1): templates that use GPUs get rails.

A template has the fields of a pod and one container, a script in its place, or a set of containers. It has no field for
resource claims. Templates are in a list, in `templateDefaults`, and in the tasks and steps of others. Manifests of
objects and patches of pods are texts; GPUs in them are reported.
"""

from collections.abc import Iterator, MutableMapping, MutableSequence

import msgspec

from trackbed.cluster.jobs.kinds.gpu_requests import find_gpus_in_text
from trackbed.cluster.jobs.kinds.kind import JobContext, JobKind, Template, patch_templates
from trackbed.cluster.jobs.kinds.pod_specs import view_container, view_containers
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.placement import HOST_NETWORK_CONFLICT
from trackbed.cluster.jobs.template import Mapping, read_list, read_mapping, read_mappings

_API = "argoproj.io/v1alpha1"
_SPECS = {"CronWorkflow": ("spec", "workflowSpec")}
"""Kind -> path of the workflow's spec; `spec` for others."""


def _iter_templates(workflow: Mapping, gpu_resource: str) -> Iterator[Template]:
    for path, template in _iter_workflow_templates(workflow):
        view = _view(template, path)
        if view is not None:
            yield view._replace(gets_rails=view.uses_gpus(gpu_resource))


def _iter_workflow_templates(workflow: Mapping) -> Iterator[tuple[str, Mapping]]:
    """Yield the templates of a workflow, each with its path."""
    keys = _get_spec_keys(workflow)
    spec, path = read_mapping(workflow, *keys), ".".join(keys)
    if read_mapping(spec, "templateDefaults"):
        yield f"{path}.templateDefaults", spec["templateDefaults"]
    for index, template in enumerate(read_mappings(spec, "templates")):
        yield f"{path}.templates[{index}]", template
        yield from _iter_inline_templates(template, f"{path}.templates[{index}]")


def _iter_inline_templates(template: Mapping, path: str) -> Iterator[tuple[str, Mapping]]:
    """Yield the templates in the tasks and steps of a template, each with its path."""
    groups = {"dag.tasks": read_list(read_mapping(template, "dag"), "tasks")}
    steps = enumerate(read_list(template, "steps"))
    groups |= {f"steps[{number}]": group for number, group in steps if isinstance(group, MutableSequence)}
    for place, tasks in groups.items():
        for index, task in enumerate(tasks):
            inline = task.get("inline") if isinstance(task, MutableMapping) else None
            if isinstance(inline, MutableMapping):
                yield f"{path}.{place}[{index}].inline", inline


def _view(template: Mapping, path: str) -> Template | None:
    """Return a template as a pod template; None if it runs no pod of its own."""
    role = str(template.get("name") or "")
    if read_mappings(read_mapping(template, "containerSet"), "containers"):
        return view_containers(template, template["containerSet"]["containers"], path, "containerSet.containers", role)
    field = next((name for name in ("container", "script") if read_mapping(template, name)), None)
    return None if field is None else view_container(template, field, path, role)


def _get_spec_keys(workflow: Mapping) -> tuple[str, ...]:
    return _SPECS.get(str(workflow.get("kind")), ("spec",))


def _patch_workflow(workflow: Mapping, context: JobContext) -> list[Note]:
    gpu_resource, access = context.requirements.gpu_resource, context.requirements.access
    templates = list(_iter_templates(workflow, gpu_resource))
    has_rails = any(template.gets_rails for template in templates)
    keys = _get_spec_keys(workflow)
    if has_rails and not access.host_network and read_mapping(workflow, *keys).get("hostNetwork") is True:
        return [msgspec.structs.replace(HOST_NETWORK_CONFLICT, path=".".join((*keys, "hostNetwork")))]
    notes = [_NO_CLAIMS] if has_rails and access.claims else []
    notes += patch_templates(templates, workflow, _drop_claims(context))
    return [*notes, *_find_gpus_in_texts(workflow, gpu_resource)]


def _find_gpus_in_texts(workflow: Mapping, gpu_resource: str) -> Iterator[Note]:
    """Yield notes on GPUs in the manifests of objects that a workflow creates, and in patches of its pods."""
    keys = _get_spec_keys(workflow)
    spec_patch = read_mapping(workflow, *keys).get("podSpecPatch")
    yield from find_gpus_in_text(spec_patch, ".".join((*keys, "podSpecPatch")), gpu_resource)
    for path, template in _iter_workflow_templates(workflow):
        yield from find_gpus_in_text(template.get("podSpecPatch"), f"{path}.podSpecPatch", gpu_resource)
        manifest = read_mapping(template, "resource").get("manifest")
        yield from find_gpus_in_text(manifest, f"{path}.resource.manifest", gpu_resource)


def _drop_claims(context: JobContext) -> JobContext:
    requirements = context.requirements
    access = msgspec.structs.replace(requirements.access, claims=())
    return context._replace(requirements=msgspec.structs.replace(requirements, access=access))


_NO_CLAIMS = Note(
    "different",
    "pod-claim-missing",
    "a template of Argo Workflows cannot carry claims",
    "the pods get no rails; add resourceClaims and the container's claims with podSpecPatch",
)

KINDS = tuple(
    JobKind(kind.lower(), kind, (_API,), _iter_templates, patch=_patch_workflow)
    for kind in ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
)
