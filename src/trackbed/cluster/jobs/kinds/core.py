"""Pod, Deployment and DaemonSet (v1, apps/v1).

A new `pod` is one Pod for each node and a Service that gives them DNS names, since an all-reduce within one node stays
on NVLink and uses no rail. The pods of a new Deployment or DaemonSet do not know their peers; they sleep, so that the
user can run commands in them.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.kind import (
    JobKind,
    JobParameters,
    Template,
    build_container,
    build_pod_spec,
    build_ranked_command,
    make_template_reader,
)
from trackbed.cluster.jobs.kinds.stateful_set import build_headless_service
from trackbed.cluster.jobs.template import Mapping, NotAJobError
from trackbed.cluster.stacks.objects import Manifest, build_manifest


def _iter_templates(job: Mapping, _: str) -> Iterator[Template]:
    yield Template("", job, gets_rails=True)


def _build_pods(params: JobParameters) -> list[Manifest]:
    """Return a Service and a Pod for each node; Kueue admits the pods together, as a group."""
    labels = {"app": params.name, "kueue.x-k8s.io/pod-group-name": params.name}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(params.node_count)}
    objects = [build_headless_service(params.name, {"app": params.name})]
    for rank in range(params.node_count):
        name = f"{params.name}-{rank}"
        command = build_ranked_command(params, str(rank), f"{params.name}-0.{params.name}")
        container = build_container(params, command)
        spec = build_pod_spec(container, restartPolicy="Never", hostname=name, subdomain=params.name)
        pod = build_manifest("v1", "Pod", name, spec=spec)
        pod["metadata"] |= {"labels": dict(labels), "annotations": dict(annotations)}
        objects.append(pod)
    return objects


def _build_deployment(params: JobParameters) -> list[Manifest]:
    spec = {"replicas": params.node_count, **_build_selector_and_template(params)}
    return [build_manifest("apps/v1", "Deployment", params.name, spec=spec)]


def _build_daemon_set(params: JobParameters) -> list[Manifest]:
    return [build_manifest("apps/v1", "DaemonSet", params.name, spec=_build_selector_and_template(params))]


def _build_selector_and_template(params: JobParameters) -> dict[str, Any]:
    """Return the `selector` and `template` fields of a Deployment or DaemonSet, whose pods sleep."""
    labels = {"app": params.name}
    template = {"metadata": {"labels": labels}, "spec": build_pod_spec(build_container(params, ("sleep", "infinity")))}
    return {"selector": {"matchLabels": labels}, "template": template}


def _refuse_queue(_: Mapping, __: str) -> None:
    raise NotAJobError("a DaemonSet has a pod on every node and cannot be queued; leave the queue out", "")


KINDS = (
    JobKind("pod", "Pod", ("v1",), _iter_templates, _build_pods),
    JobKind(
        "deployment",
        "Deployment",
        ("apps/v1",),
        make_template_reader("spec", "template", count="replicas"),
        _build_deployment,
    ),
    JobKind(
        "daemonset",
        "DaemonSet",
        ("apps/v1",),
        make_template_reader("spec", "template"),
        _build_daemon_set,
        set_queue=_refuse_queue,
    ),
)
