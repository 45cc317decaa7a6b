"""Job and CronJob (batch/v1): indexed, so that each pod has a rank and, with a Service, a DNS name."""

from typing import Any

from trackbed.cluster.jobs.kinds.kind import (
    QUEUE_LABEL,
    JobKind,
    JobParameters,
    build_container,
    build_field_variable,
    build_pod_spec,
    build_ranked_command,
    make_template_reader,
)
from trackbed.cluster.jobs.kinds.stateful_set import build_headless_service
from trackbed.cluster.jobs.template import Mapping, ensure_mapping
from trackbed.cluster.stacks.objects import Manifest, build_manifest


def _build_indexed_job_spec(params: JobParameters) -> dict[str, Any]:
    """Return the spec of an indexed Job. The host name of its pods is JOB-INDEX (Kubernetes, "Indexed Job")."""
    labels = {"app": params.name}
    name = build_field_variable("JOB_NAME", "metadata.labels['batch.kubernetes.io/job-name']")
    command = build_ranked_command(params, "$(JOB_COMPLETION_INDEX)", f"$(JOB_NAME)-0.{params.name}")
    trainer = build_container(params, command, env=[name])
    return {
        "completionMode": "Indexed",
        "completions": params.node_count,
        "parallelism": params.node_count,
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": labels},
            "spec": build_pod_spec(trainer, restartPolicy="Never", subdomain=params.name),
        },
    }


def _build_job(params: JobParameters) -> list[Manifest]:
    service = build_headless_service(params.name, {"app": params.name})
    return [service, build_manifest("batch/v1", "Job", params.name, spec=_build_indexed_job_spec(params))]


def _build_cron_job(params: JobParameters) -> list[Manifest]:
    spec = {
        "schedule": "0 3 * * 0",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": _build_indexed_job_spec(params)},
    }
    service = build_headless_service(params.name, {"app": params.name})
    return [service, build_manifest("batch/v1", "CronJob", params.name, spec=spec)]


def _set_template_queue(job: Mapping, queue: str) -> None:
    """Set Kueue's label on the jobs that a CronJob creates, as Kueue queues these and not the CronJob."""
    ensure_mapping(job, "spec", "jobTemplate", "metadata", "labels")[QUEUE_LABEL] = queue


KINDS = (
    JobKind("job", "Job", ("batch/v1",), make_template_reader("spec", "template", count="parallelism"), _build_job),
    JobKind(
        "cronjob",
        "CronJob",
        ("batch/v1",),
        make_template_reader("spec", "jobTemplate", "spec", "template", count="parallelism"),
        _build_cron_job,
        set_queue=_set_template_queue,
    ),
)
