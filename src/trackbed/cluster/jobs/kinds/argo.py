"""Argo Workflows (argoproj.io/v1alpha1): templates that use GPUs get rails.

A template has the fields of a pod and one container, or a script in its place. It has no field for resource claims.
"""

from collections.abc import Iterator

import msgspec

from trackbed.cluster.jobs.kinds.kind import JobContext, JobKind, Template, patch_templates, uses_gpus
from trackbed.cluster.jobs.kinds.pod_specs import view_container
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.template import Mapping, read_mapping, read_mappings

_API = "argoproj.io/v1alpha1"
_SPECS = {"CronWorkflow": ("spec", "workflowSpec")}
"""Kind -> path of the workflow's spec; `spec` for others."""


def _iter_templates(workflow: Mapping) -> Iterator[Template]:
    keys = _SPECS.get(str(workflow.get("kind")), ("spec",))
    for index, template in enumerate(read_mappings(read_mapping(workflow, *keys), "templates")):
        field = next((name for name in ("container", "script") if read_mapping(template, name)), None)
        if field is None:
            continue
        path = f"{'.'.join(keys)}.templates[{index}]"
        view = view_container(template, field, path, str(template.get("name") or ""))
        yield view._replace(gets_rails=uses_gpus(read_mapping(view.template, "spec")))


def _patch_workflow(workflow: Mapping, context: JobContext) -> list[Note]:
    templates = list(_iter_templates(workflow))
    access = context.requirements.access
    notes = patch_templates(templates, workflow, _drop_claims(context))
    if access.claims and any(template.gets_rails for template in templates):
        notes.insert(0, _NO_CLAIMS)
    return notes


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
