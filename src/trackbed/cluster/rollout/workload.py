"""Reasons why pods of a Deployment, DaemonSet or StatefulSet are missing, from kubelet, scheduler and admission.

Many pods fail for the same reason, so each reason is reported once: the number of pods, the first pod with its message,
and a remedy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.catalogue import diagnose

_KINDS = frozenset({"DaemonSet", "Deployment", "StatefulSet"})
_STARTING_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
_ENDED = frozenset({"CrashLoopBackOff", "Error"})
"""Reasons of containers that ran and ended, so that they have a log."""
_MAX_SHOWN_REASONS = 3
_LOG_LIMITS = {"tailLines": "30", "limitBytes": "16384"}
_SHOWN_CHARACTERS = 300

_LOGS = "`kubectl logs --previous --namespace {namespace} {pod}` says why"
_PULL = "see that its nodes reach the registry, and that the pull secret is right"
_REMEDIES = {
    "ImagePullBackOff": _PULL,
    "ErrImagePull": _PULL,
    "CrashLoopBackOff": _LOGS,
    "Error": _LOGS,
    "OOMKilled": "raise its memory limit",
    "Unschedulable": "give it a node that fits, or take the taint away",
    "FailedCreate": "an admission policy or a quota refuses its pods: label the namespace, or raise the quota",
    "NotReady": "see that its node is Ready; `kubectl describe pod --namespace {namespace} {pod}`",
}


@dataclass(frozen=True, slots=True)
class _FailedPods:
    """Pods that fail for the same reason: their number, and the first pod with its message."""

    reason: str
    message: str
    pod: str = ""
    node: str = ""
    count: int = 1
    container: str = ""
    """Container that ended, whose log says why."""

    def format_line(self, namespace: str) -> str:
        """Return one line about the pods, with a remedy."""
        name = f"{self.pod} on {self.node}" if self.node else self.pod
        plural = f"{self.count} pods" + (f", the first {name}" if name else "")
        subject = plural if self.count > 1 else f"pod {name}" if name else "1 pod"
        advice = _REMEDIES.get(self.reason, "").format(namespace=namespace, pod=self.pod)
        message = f"{self.reason}: {self.message[:_SHOWN_CHARACTERS]}" if self.message else self.reason
        return f"{subject}: {message}{f'; {advice}' if advice else ''}"


async def explain_missing_pods(client: DynamicClient, workload: Object) -> list[str]:
    """Return a line for each reason why a workload's pods are missing, the most frequent first. Raises KubeError.

    The list is empty for an object that has no pods, and if no pod fails.
    """
    if workload["kind"] not in _KINDS:
        return []
    namespace = workload["metadata"]["namespace"]
    labels = workload["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listing = client.iter_objects("v1", "Pod", namespace, selector=selector)
    failures = [_find_failure(pod) async for pod in listing if "deletionTimestamp" not in pod["metadata"]]
    by_reason: dict[str, _FailedPods] = {}
    for failure in filter(None, failures):
        group = by_reason.get(failure.reason)
        by_reason[failure.reason] = replace(group, count=group.count + 1) if group else failure
    refused = await _find_refused_pods(client, workload, _count_replicas(workload) - len(failures))
    groups = [*by_reason.values(), *([refused] if refused else [])]
    shown = sorted(groups, key=lambda group: -group.count)[:_MAX_SHOWN_REASONS]
    return [(await _quote_log(client, namespace, group)).format_line(namespace) for group in shown]


async def _quote_log(client: DynamicClient, namespace: str, group: _FailedPods) -> _FailedPods:
    """Return the pods with the last line of the log of the container that ended; unchanged without a log.

    Raises KubeError.
    """
    if not group.container:
        return group
    path = f"/api/v1/namespaces/{namespace}/pods/{group.pod}/log"
    for previous in ("true", "false"):
        params = {"container": group.container, "previous": previous, **_LOG_LIMITS}
        response = await client.client.request("GET", path, params=params)
        lines = [line for line in response.text.splitlines() if line.strip()] if response.is_success else []
        if lines:
            known = [line for line in lines if diagnose(line)]
            quoted = (known or lines)[-1].strip()[:_SHOWN_CHARACTERS]
            return replace(group, message=f"{group.message}; its log: {quoted}".removeprefix("; "))
    return group


def _find_failure(pod: Object) -> _FailedPods | None:
    """Return why a pod is not ready; None if the pod is ready or still starting."""
    name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName", "")
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if failure := _read_container_failure(container.get("state", {})):
            ended = str(container.get("name", "")) if failure[0] in _ENDED else ""
            return _FailedPods(*failure, name, node, container=ended)
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    if scheduled.get("status") == "False":
        return _FailedPods(str(scheduled.get("reason")), str(scheduled.get("message", "")), name, node)
    is_unready = status.get("phase") == "Running" and ready.get("status") == "False"
    return _FailedPods("NotReady", str(ready.get("message", "")), name, node) if is_unready else None


def _read_container_failure(state: Mapping[str, Object | None]) -> tuple[str, str] | None:
    """Return reason and message of a container that waits or has failed; None for any other state."""
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting and waiting.get("reason") not in _STARTING_REASONS:
        return str(waiting.get("reason")), str(waiting.get("message", "")).strip()
    if terminated.get("exitCode"):
        message = f"exit status {terminated['exitCode']} {terminated.get('message', '')}".strip()
        return str(terminated.get("reason")), message
    return None


def _count_replicas(workload: Object) -> int:
    """Return the number of pods that a workload should have."""
    if workload["kind"] == "DaemonSet":
        return int(workload.get("status", {}).get("desiredNumberScheduled", 0))
    return int(workload["spec"].get("replicas", 1))


async def _find_refused_pods(client: DynamicClient, workload: Object, missing: int) -> _FailedPods | None:
    """Return the pods that the API server refused, by the last event; None if no pod is missing or refused."""
    if missing <= 0:
        return None
    listing = client.iter_objects("v1", "Event", workload["metadata"]["namespace"], fields="reason=FailedCreate")
    events = [event async for event in listing if _concerns_workload(event.get("involvedObject", {}), workload)]
    if not events:
        return None
    last = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return _FailedPods("FailedCreate", str(last.get("message", "")), count=missing)


def _concerns_workload(reference: Object, workload: Object) -> bool:
    """Return whether an event's object is a workload, or a ReplicaSet of a Deployment."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    if reference.get("kind") == "ReplicaSet" and kind == "Deployment":
        return bool(str(reference.get("name")).rpartition("-")[0] == name)
    return bool((reference.get("kind"), reference.get("name")) == (kind, name))
