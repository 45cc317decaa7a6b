"""Job and CronJob (batch/v1): indexed, so that each pod has a rank and, with a Service, a name."""

from __future__ import annotations

from typing import Any

from trackbed.cluster.jobs.kinds.kind import QUEUE_LABEL, JobKind, Shape, container, label_of, only, pod, ranked
from trackbed.cluster.jobs.kinds.stateful_set import headless
from trackbed.cluster.jobs.template import Mapping, mapping
from trackbed.cluster.stacks.objects import Manifest, manifest

_OWN = "batch.kubernetes.io/job-name"
_RANK = "$(JOB_COMPLETION_INDEX)"


def _indexed(shape: Shape) -> dict[str, Any]:
    """A job's spec; a pod's host name is the job's name and the pod's index (Kubernetes, "Indexed Job")."""
    labels = {"app": shape.name}
    name = label_of("JOB_NAME", f"metadata.labels['{_OWN}']")
    one = container(shape, ranked(shape, _RANK, f"$(JOB_NAME)-0.{shape.name}"), env=[name])
    return {
        "completionMode": "Indexed",
        "completions": shape.nodes,
        "parallelism": shape.nodes,
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": labels},
            "spec": pod(one, restartPolicy="Never", subdomain=shape.name),
        },
    }


def _job(shape: Shape) -> list[Manifest]:
    service = headless(shape.name, {"app": shape.name})
    return [service, manifest("batch/v1", "Job", shape.name, spec=_indexed(shape))]


def _cron_job(shape: Shape) -> list[Manifest]:
    spec = {
        "schedule": "0 3 * * 0",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": _indexed(shape)},
    }
    service = headless(shape.name, {"app": shape.name})
    return [service, manifest("batch/v1", "CronJob", shape.name, spec=spec)]


def _queue(job: Mapping, name: str) -> None:
    mapping(job, "spec", "jobTemplate", "metadata", "labels")[QUEUE_LABEL] = name


KINDS = (
    JobKind("job", "Job", ("batch/v1",), only("spec", "template"), _job),
    JobKind(
        "cronjob", "CronJob", ("batch/v1",), only("spec", "jobTemplate", "spec", "template"), _cron_job, queue=_queue
    ),
)
