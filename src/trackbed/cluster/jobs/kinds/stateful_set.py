"""StatefulSet (apps/v1): pods with names and numbers that last; the number is the rank."""

from __future__ import annotations

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, container, label_of, only, pod, ranked
from trackbed.cluster.stacks.objects import Manifest, manifest


def headless(name: str, labels: dict[str, str]) -> Manifest:
    """A Service that gives each pod a name in DNS, also before it is ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    return manifest("v1", "Service", name, spec=spec)


def _skeleton(shape: Shape) -> list[Manifest]:
    labels = {"app": shape.name}
    rank = label_of("RANK_OF_NODE", "metadata.labels['apps.kubernetes.io/pod-index']")
    command = ranked(shape, "$(RANK_OF_NODE)", f"{shape.name}-0.{shape.name}", stays=True)
    spec = {
        "serviceName": shape.name,
        "replicas": shape.nodes,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod(container(shape, command, env=[rank]))},
    }
    return [headless(shape.name, labels), manifest("apps/v1", "StatefulSet", shape.name, spec=spec)]


KINDS = (JobKind("statefulset", "StatefulSet", ("apps/v1",), only("spec", "template"), _skeleton),)
