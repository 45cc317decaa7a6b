"""A kind of job: where its pod templates are, which templates get rails, and how to build a new job."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.jobs.claims import check_namespace
from trackbed.cluster.jobs.inject import find_stray_rails, inject_rails
from trackbed.cluster.jobs.kinds.gpu_requests import find_unknown_pods
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.program import build_torchrun_command
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import (
    Mapping,
    NotAJobError,
    ensure_mapping,
    find_gpu_resources,
    read_mapping,
    read_mappings,
)
from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.quantities import parse_quantity

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a job with the name of its LocalQueue (Kueue, "Run a Kubernetes Job")."""
JOB_NAME_PATTERN = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""Pattern of names of new jobs, short enough for the host names of their pods (63 characters, RFC 1123)."""
MASTER_PORT = 29500
"""Port on which rank 0 listens, torchrun's default."""


class Template(NamedTuple):
    """A pod template of a job, and its path in the job's manifest."""

    path: str
    template: Mapping
    gets_rails: bool
    role: str = ""
    """Role of the pods in the job, such as Master; empty if the job has only one."""
    places: tuple[tuple[str, str], ...] = ()
    """Path in the template -> path in the manifest, if the manifest has the template's fields at other places."""
    store: Callable[[], None] | None = None
    """Write the template's fields back to the manifest, if they are not part of it."""
    takes_annotations: bool = True
    """Whether the template's annotations have a place in the manifest."""
    pods: int | None = None
    """Number of pods that are made of the template; None if the manifest does not say it."""
    volume_names: frozenset[str] = frozenset()
    """Names of volumes that the pods have besides those of the template."""

    def uses_gpus(self, gpu_resource: str) -> bool:
        """Return whether the pods use GPUs, by this resource or one that is known."""
        return uses_gpus(read_mapping(self.template, "spec"), gpu_resource)

    def locate(self, note: Note) -> Note:
        """Return a note with its path in the manifest, and the role."""
        for path, place in self.places:
            if note.path.startswith(path):
                return msgspec.structs.replace(note, path=place + note.path[len(path) :], role=self.role)
        return msgspec.structs.replace(note.with_parent(self.path), role=self.role)


class JobContext(NamedTuple):
    """Requirements of pods with rails, and what is around a job."""

    requirements: PodRequirements
    objects: Sequence[Mapping] = ()
    """All objects of the file."""
    has_gpus: bool = False
    """Whether pods in the file use GPUs; then pods without GPUs get no rails."""
    namespace: str | None = None
    """Namespace of a job whose metadata has none, such as that of an object which contains the job."""
    job_paths: Sequence[str] = ()
    """Paths of jobs in an object of a kind that is not known; they are patched by themselves."""


class JobParameters(msgspec.Struct, frozen=True):
    """Parameters of a new job."""

    name: str
    image: str
    node_count: int
    gpus_per_node: int
    gpu_resource: str = GPU_RESOURCE
    host_network: bool = False
    huge_pages: bool = False
    """Whether the stack needs huge pages; the pods then also request memory."""
    by_rail: bool = False
    """Whether each rail is measured by itself, all at once."""
    namespace: str | None = None
    """Namespace of the job; None if it is chosen when the job is applied."""
    compute: tuple[tuple[str, str], ...] = ()
    """CPU, memory and huge pages of a pod with GPUs: resource -> quantity, both request and limit.

    With CPU and memory the pod is Guaranteed, so that kubelet's static policy gives it whole CPUs.
    """


def refuse_to_build(_: JobParameters) -> list[Manifest]:
    """Refuse to build a new job: the default of kinds that can only be patched."""
    raise NotAJobError("no new job of this kind is written", "kind")


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of a job API, such as Job or MPIJob, and the functions that handle its manifests."""

    name: str
    """Name on the command line."""
    kind: str
    api_versions: tuple[str, ...]
    iter_templates: Callable[[Mapping, str], Iterator[Template]]
    """Yield the pod templates of a job; the text is the resource of the Fabric's GPUs, beside those that are known."""
    build: Callable[[JobParameters], list[Manifest]] = refuse_to_build
    """Build a runnable job without rails, as one or more objects; the job is the last."""
    patch: Callable[[Mapping, JobContext], list[Note]] | None = None
    """Inject rails into a job, if its pod templates are not enough."""
    set_queue: Callable[[Mapping, str], None] | None = None
    """Put a job in the queue of this name. The default sets Kueue's label."""
    states_gpus: bool = True
    """Whether a pod template without GPUs means pods without GPUs, and not that another object states them."""


def make_template_reader(*keys: str, count: str = "") -> Callable[[Mapping, str], Iterator[Template]]:
    """Return an `iter_templates` function for kinds with a single pod template, which is at `keys` and gets rails.

    `count` is the field beside the template that says how many pods are made of it.
    """

    def iter_templates(job: Mapping, _: str) -> Iterator[Template]:
        if read_mapping(job, *keys):
            pods = read_count(read_mapping(job, *keys[:-1]), count) if count else None
            yield Template(".".join(keys), ensure_mapping(job, *keys), gets_rails=True, pods=pods)

    return iter_templates


def read_count(parent: Mapping, key: str, default: int | None = 1) -> int | None:
    """Return the whole number at `key`, `default` if there is none; None if it is something else."""
    value = parent.get(key, default)
    return value if type(value) is int else None


def patch_job(kind: JobKind, job: Mapping, context: JobContext) -> list[Note]:
    """Inject rails into a job, in place; return notes. Raises NotAJobError if the job does not match its kind."""
    if kind.patch:
        return kind.patch(job, context)
    has_gpus = context.has_gpus and kind.states_gpus
    templates = kind.iter_templates(job, context.requirements.gpu_resource)
    return patch_templates(templates, job, context._replace(has_gpus=has_gpus))


def patch_templates(templates: Iterable[Template], job: Mapping, context: JobContext) -> list[Note]:
    """Inject rails into the templates that get them, in place; return notes, also on rails of the other templates."""
    notes: list[Note] = []
    templates, gpu_resource = list(templates), context.requirements.gpu_resource
    namespace = read_namespace(job) or context.namespace
    if context.has_gpus:
        templates = [t._replace(gets_rails=t.gets_rails and t.uses_gpus(gpu_resource)) for t in templates]
    for template in templates:
        notes += map(template.locate, _patch_template(template, context.requirements, namespace))
    return [
        *(check_namespace(context.requirements.access, namespace) if any(t.gets_rails for t in templates) else ()),
        *notes,
        *_check_all_gpus(templates, dict(context.requirements.all_gpus)),
        *_find_gpus_without_rails(templates, gpu_resource),
        *find_unknown_pods(job, gpu_resource, [*context.job_paths, *(template.path for template in templates)]),
    ]


def _patch_template(template: Template, requirements: PodRequirements, namespace: str | None) -> list[Note]:
    access = requirements.access
    if not template.gets_rails:
        notes = find_stray_rails(template.template, requirements, namespace)
    elif not template.takes_annotations and (access.networks or access.annotations):
        return [_NO_ANNOTATIONS]
    else:
        names = template.volume_names
        notes = inject_rails(template.template, requirements, namespace, volume_names=names)
    if template.store:
        template.store()
    return notes


def _check_all_gpus(templates: Iterable[Template], known: dict[str, int]) -> Iterator[Note]:
    """Yield a note where the pods of a job need more GPUs than all nodes have; `known` are these, by resource."""
    needed = dict.fromkeys(known, Decimal(0))
    for template in templates:
        for container in read_mappings(read_mapping(template.template, "spec"), "containers"):
            limits = read_mapping(container, "resources", "limits")
            for name in known:
                needed[name] += (template.pods or 0) * (parse_quantity(str(limits.get(name, 0))) or 0)
    for name, count in needed.items():
        if count > known[name]:
            difference = f"all pods together ask for {count} {name}, the nodes have {known[name]}"
            breaks = "some pods stay pending, and a job that starts with all its pods never starts"
            yield Note("different", "job-more-gpus-than-nodes", difference, breaks)


def _find_gpus_without_rails(templates: Iterable[Template], gpu_resource: str) -> Iterator[Note]:
    """Yield a note for each template with GPUs, if none of a job's templates gets rails."""
    if not any(template.gets_rails for template in templates):
        for template in templates:
            if template.uses_gpus(gpu_resource):
                yield template.locate(_NO_RAILS)


_NO_RAILS = Note(
    "different",
    "pod-gpus-without-rails",
    "these pods use GPUs, and their role in this kind of job gets no rails",
    "GPUs of other nodes are reached by TCP only; let the role that runs the ranks ask for the GPUs",
)
_NO_ANNOTATIONS = Note(
    "different",
    "pod-spec-without-annotations",
    "a pod spec without a place for the pods' annotations",
    "the stack needs annotations, so nothing was added; set them where this API takes them, or use a stack with claims",
)


def uses_gpus(pod_spec: Mapping, gpu_resource: str) -> bool:
    """Return whether a container of the pod requests GPUs, by this resource or a known one, or has a resource claim."""
    containers = read_mappings(pod_spec, "containers")
    if any(read_mappings(read_mapping(container, "resources"), "claims") for container in containers):
        return True
    return any(find_gpu_resources(container, gpu_resource) for container in containers)


def read_namespace(job: Mapping) -> str | None:
    """Return the namespace in a job's metadata; None if it is chosen when the job is applied."""
    name = read_mapping(job, "metadata").get("namespace")
    return None if name is None else str(name)


def build_container(
    params: JobParameters,
    command: Sequence[str],
    name: str = "trainer",
    **fields: Any,  # noqa: ANN401 - any field of a container
) -> dict[str, Any]:
    """Return a container that uses all GPUs of a node; `fields` are further fields of the container."""
    compute = dict(params.compute)
    limits = {params.gpu_resource: params.gpus_per_node, **compute}
    requests = {"memory": "64Gi"} | compute if params.huge_pages else compute
    resources = {"limits": limits} | ({"requests": requests} if requests else {})
    return {
        "name": name,
        "image": params.image,
        **({"command": list(command)} if command else {}),
        **fields,
        "resources": resources,
    }


def build_pod_spec(container: dict[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of a pod's spec
    """Return the spec of a pod with one container; `fields` are further fields of the spec."""
    return {**fields, "containers": [container]}


def build_ranked_command(
    params: JobParameters, rank: str, master_address: str, *, keep_running: bool = False
) -> list[str]:
    """Return the torchrun command for pods that know their node rank and the address of rank 0's pod.

    `rank` and `master_address` may refer to environment variables as `$(NAME)`, which the kubelet expands. With
    `keep_running` the program sleeps after the measurement instead of exiting.
    """
    return build_torchrun_command(
        f"--nnodes={params.node_count}",
        f"--nproc-per-node={params.gpus_per_node}",
        f"--node-rank={rank}",
        f"--master-addr={master_address}",
        f"--master-port={MASTER_PORT}",
        keep_running=keep_running,
    )


def build_field_variable(name: str, field_path: str) -> dict[str, Any]:
    """Return an environment variable with the value of a field or label of the pod (fieldRef)."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}
