"""StatefulSet (apps/v1): pods with stable names and ordinals; the ordinal is the rank."""

from collections.abc import Iterator

from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_field_variable,
    build_pod_spec,
    build_ranked_command,
    make_template_reader,
)
from trackbed.cluster.jobs.template import Mapping, read_mapping, read_mappings
from trackbed.cluster.stacks.objects import Manifest, build_manifest


def build_headless_service(name: str, labels: dict[str, str]) -> Manifest:
    """Return a headless Service, which gives each pod a DNS name even before the pod is ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    return build_manifest("v1", "Service", name, spec=spec)


def _build_job(params: JobParameters) -> list[Manifest]:
    labels = {"app": params.name}
    rank = build_field_variable("RANK_OF_NODE", "metadata.labels['apps.kubernetes.io/pod-index']")
    command = build_ranked_command(params, "$(RANK_OF_NODE)", f"{params.name}-0.{params.name}", keep_running=True)
    spec = {
        "serviceName": params.name,
        "replicas": params.node_count,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": build_pod_spec(build_container(params, command, env=[rank])),
        },
    }
    return [
        build_headless_service(params.name, labels),
        build_manifest("apps/v1", "StatefulSet", params.name, spec=spec),
    ]


_read_template = make_template_reader("spec", "template", count="replicas")


def _iter_templates(job: Mapping, gpu_resource: str) -> Iterator[Template]:
    """Yield the pod template; each pod has a volume for each of the set's volume claims too."""
    claims = read_mappings(read_mapping(job, "spec"), "volumeClaimTemplates")
    names = frozenset(str(read_mapping(claim, "metadata").get("name")) for claim in claims)
    yield from (template._replace(volume_names=names) for template in _read_template(job, gpu_resource))


KINDS = (JobKind("statefulset", "StatefulSet", ("apps/v1",), _iter_templates, _build_job),)
