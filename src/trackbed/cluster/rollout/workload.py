"""Why the pods of a Deployment, DaemonSet or StatefulSet are missing: by kubelet, scheduler and admission.

Many pods fail alike, so each reason is reported once: how many pods have it, the first of them with its message, and a
remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object

_KINDS = frozenset({"DaemonSet", "Deployment", "StatefulSet"})
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_SHOWN = 3
_SHOWN_CHARACTERS = 300

_LOGS = "`kubectl logs --previous --namespace {namespace} {pod}` says why"
_PULL = "see that its nodes reach the registry, and that the pull secret is right"
_ADVICE = {
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
    """Pods that fail for one reason: how many, the first of them, and its message."""

    reason: str
    message: str
    pod: str = ""
    node: str = ""
    count: int = 1

    def format(self, namespace: str) -> str:
        """Return one line."""
        name = f"{self.pod} on {self.node}" if self.node else self.pod
        plural = f"{self.count} pods" + (f", the first {name}" if name else "")
        subject = plural if self.count > 1 else f"pod {name}" if name else "1 pod"
        advice = _ADVICE.get(self.reason, "").format(namespace=namespace, pod=self.pod)
        message = f"{self.reason}: {self.message[:_SHOWN_CHARACTERS]}" if self.message else self.reason
        return f"{subject}: {message}{f'; {advice}' if advice else ''}"


async def explain_missing_pods(client: DynamicClient, workload: Object) -> list[str]:
    """Return a line for each reason, the most frequent first; none for another kind, or where no pod fails yet."""
    if workload["kind"] not in _KINDS:
        return []
    namespace = workload["metadata"]["namespace"]
    labels = workload["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listing = client.list("v1", "Pod", namespace, selector=selector)
    failures = [_find_failure(pod) async for pod in listing if "deletionTimestamp" not in pod["metadata"]]
    by_reason: dict[str, _FailedPods] = {}
    for failure in filter(None, failures):
        group = by_reason.get(failure.reason)
        by_reason[failure.reason] = replace(group, count=group.count + 1) if group else failure
    refused = await _find_refusal(client, workload, _count_replicas(workload) - len(failures))
    groups = [*by_reason.values(), *([refused] if refused else [])]
    return [group.format(namespace) for group in sorted(groups, key=lambda group: -group.count)[:_SHOWN]]


def _find_failure(pod: Object) -> _FailedPods | None:
    """Return why a pod is not ready; None where it is ready or still starting."""
    name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName", "")
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if failure := _read_failure(container.get("state", {})):
            return _FailedPods(*failure, name, node)
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    if scheduled.get("status") == "False":
        return _FailedPods(str(scheduled.get("reason")), str(scheduled.get("message", "")), name, node)
    is_unready = status.get("phase") == "Running" and ready.get("status") == "False"
    return _FailedPods("NotReady", str(ready.get("message", "")), name, node) if is_unready else None


def _read_failure(state: Mapping[str, Object | None]) -> tuple[str, str] | None:
    """Return reason and message of a container that waits or has failed."""
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting and waiting.get("reason") not in _STARTING:
        return str(waiting.get("reason")), str(waiting.get("message", "")).strip()
    if terminated.get("exitCode"):
        message = f"exit status {terminated['exitCode']} {terminated.get('message', '')}".strip()
        return str(terminated.get("reason")), message
    return None


def _count_replicas(workload: Object) -> int:
    """Return how many pods a workload's controller creates."""
    if workload["kind"] == "DaemonSet":
        return int(workload.get("status", {}).get("desiredNumberScheduled", 0))
    return int(workload["spec"].get("replicas", 1))


async def _find_refusal(client: DynamicClient, workload: Object, missing: int) -> _FailedPods | None:
    """Return the API server's last refusal of a pod of the workload or its ReplicaSet."""
    if missing <= 0:
        return None
    listing = client.list("v1", "Event", workload["metadata"]["namespace"], fields="reason=FailedCreate")
    events = [event async for event in listing if _is_about(event.get("involvedObject", {}), workload)]
    if not events:
        return None
    last = max(events, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return _FailedPods("FailedCreate", str(last.get("message", "")), count=missing)


def _is_about(reference: Object, workload: Object) -> bool:
    name, kind = workload["metadata"]["name"], workload["kind"]
    if reference.get("kind") == "ReplicaSet" and kind == "Deployment":
        return bool(str(reference.get("name")).rpartition("-")[0] == name)
    return bool((reference.get("kind"), reference.get("name")) == (kind, name))
