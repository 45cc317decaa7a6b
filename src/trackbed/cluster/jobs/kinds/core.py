"""Pods and what makes equal ones: Pod, Deployment, DaemonSet (v1, apps/v1).

Their pods do not know one another, so a new one measures within its node, or waits for a person's own commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.jobs.kinds.kind import JobKind, Shape, Template, container, only, pod
from trackbed.cluster.jobs.program import ALL_REDUCE_PERF
from trackbed.cluster.jobs.template import Mapping, NotAJobError
from trackbed.cluster.stacks.objects import Manifest, manifest

_WAIT = ("sleep", "infinity")


def _itself(job: Mapping) -> Iterator[Template]:
    yield Template("", job, gets_rails=True)


def _pod(shape: Shape) -> list[Manifest]:
    command = (*ALL_REDUCE_PERF, "-g", str(shape.gpus))
    return [manifest("v1", "Pod", shape.name, spec=pod(container(shape, command), restartPolicy="Never"))]


def _deployment(shape: Shape) -> list[Manifest]:
    return [manifest("apps/v1", "Deployment", shape.name, spec={"replicas": shape.nodes, **_selected(shape)})]


def _daemon_set(shape: Shape) -> list[Manifest]:
    return [manifest("apps/v1", "DaemonSet", shape.name, spec=_selected(shape))]


def _selected(shape: Shape) -> dict[str, Any]:
    labels = {"app": shape.name}
    template = {"metadata": {"labels": labels}, "spec": pod(container(shape, _WAIT))}
    return {"selector": {"matchLabels": labels}, "template": template}


def _no_queue(_: Mapping, __: str) -> None:
    raise NotAJobError("a DaemonSet has a pod on every node and waits in no queue; leave the queue out", "")


KINDS = (
    JobKind("pod", "Pod", ("v1",), _itself, _pod),
    JobKind("deployment", "Deployment", ("apps/v1",), only("spec", "template"), _deployment),
    JobKind("daemonset", "DaemonSet", ("apps/v1",), only("spec", "template"), _daemon_set, queue=_no_queue),
)
