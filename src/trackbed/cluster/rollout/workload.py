"""Why the pods of a Deployment, DaemonSet or StatefulSet are not there: in the words of kubelet, scheduler, admission.

Many pods fail alike, so each reason is told once: how many pods have it, the first of them with its message, and what
a person can do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trackbed.cluster.api.client import Client, Object

_KINDS = frozenset({"DaemonSet", "Deployment", "StatefulSet"})
_BEGINNING = frozenset({"ContainerCreating", "PodInitializing"})
_SHOWN = 3
_LONGEST = 300
"""Characters of somebody else's message."""

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
class _Hindered:
    """Pods that are not there for one reason: how many, which is the first of them, what is said of it."""

    reason: str
    message: str
    pod: str = ""
    node: str = ""
    count: int = 1

    def told(self, namespace: str) -> str:
        """All of it in one line."""
        named = f"{self.pod} on {self.node}" if self.node else self.pod
        many = f"{self.count} pods" + (f", the first {named}" if named else "")
        who = many if self.count > 1 else f"pod {named}" if named else "1 pod"
        advice = _ADVICE.get(self.reason, "").format(namespace=namespace, pod=self.pod)
        message = f"{self.reason}: {self.message[:_LONGEST]}" if self.message else self.reason
        return f"{who}: {message}{f'; {advice}' if advice else ''}"


def hindered(client: Client, one: Object) -> Iterator[str]:
    """A line for each reason, the most frequent first; none for another kind, or where nothing is wrong yet."""
    if one["kind"] not in _KINDS:
        return
    namespace = one["metadata"]["namespace"]
    labels = one["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    listed = client.list("v1", "Pod", namespace, selector=selector)
    pods = [_why(pod) for pod in listed if "deletionTimestamp" not in pod["metadata"]]
    found: dict[str, _Hindered] = {}
    for why in filter(None, pods):
        known = found.get(why.reason)
        found[why.reason] = why if known is None else replace(known, count=known.count + 1)
    groups = [*found.values(), *_refused(client, one, _wanted(one) - len(pods))]
    for group in sorted(groups, key=lambda group: -group.count)[:_SHOWN]:
        yield group.told(namespace)


def _why(pod: Object) -> _Hindered | None:
    """What keeps a pod from being ready; None where it is, or is only beginning."""
    name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName", "")
    status = pod.get("status", {})
    for state in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = state.get("state", {}).get("waiting") or {}
        if waiting and waiting.get("reason") not in _BEGINNING:
            return _Hindered(str(waiting.get("reason")), str(waiting.get("message", "")).strip(), name, node)
        ended = state.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            said = f"exit status {ended['exitCode']} {ended.get('message', '')}".strip()
            return _Hindered(str(ended.get("reason")), said, name, node)
    conditions = {entry.get("type"): entry for entry in status.get("conditions") or ()}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    if scheduled.get("status") == "False":
        return _Hindered(str(scheduled.get("reason")), str(scheduled.get("message", "")), name, node)
    runs = status.get("phase") == "Running" and ready.get("status") == "False"
    return _Hindered("NotReady", str(ready.get("message", "")), name, node) if runs else None


def _wanted(one: Object) -> int:
    """How many pods its controller wants."""
    if one["kind"] == "DaemonSet":
        return int(one.get("status", {}).get("desiredNumberScheduled", 0))
    return int(one["spec"].get("replicas", 1))


def _refused(client: Client, one: Object, missing: int) -> Iterator[_Hindered]:
    """What the API server said last when the workload, or its ReplicaSet, was refused a pod."""
    if missing <= 0:
        return
    events = client.list("v1", "Event", one["metadata"]["namespace"], fields="reason=FailedCreate")
    own = [event for event in events if _is_about(event.get("involvedObject", {}), one)]
    if own:
        last = max(own, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
        yield _Hindered("FailedCreate", str(last.get("message", "")), count=missing)


def _is_about(about: Object, one: Object) -> bool:
    name, kind = one["metadata"]["name"], one["kind"]
    if about.get("kind") == "ReplicaSet" and kind == "Deployment":
        return bool(str(about.get("name")).rpartition("-")[0] == name)
    return bool((about.get("kind"), about.get("name")) == (kind, name))
