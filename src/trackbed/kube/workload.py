"""Why the pods of a Deployment, DaemonSet or StatefulSet are not there: in the words of kubelet, scheduler, admission.

Many pods fail alike, so each reason is told once, with their number, and with what a person can do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trackbed.kube.client import Client, Object

_KINDS = frozenset({"DaemonSet", "Deployment", "StatefulSet"})
_BEGINNING = frozenset({"ContainerCreating", "PodInitializing"})
_SHOWN = 3
_LONGEST = 300
"""Characters of somebody else's message."""

_LOGS = "`kubectl logs --previous` of it says why"
_ADVICE = {
    "ImagePullBackOff": "see that its nodes reach the registry, and that the pull secret is right",
    "ErrImagePull": "see that its nodes reach the registry, and that the pull secret is right",
    "CrashLoopBackOff": _LOGS,
    "Error": _LOGS,
    "OOMKilled": "raise its memory limit",
    "Unschedulable": "give it a node that fits, or take the taint away",
    "FailedCreate": "an admission policy or a quota refuses its pods: label the namespace, or raise the quota",
}


def hindered(client: Client, one: Object) -> Iterator[str]:
    """A line for each reason, the most frequent first; none for another kind, or where nothing is wrong yet."""
    if one["kind"] not in _KINDS:
        return
    namespace = one["metadata"]["namespace"]
    labels = one["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    reasons = Counter(found for pod in client.list("v1", "Pod", namespace, selector=selector) if (found := _why(pod)))
    reasons.update(found for event in client.list("v1", "Event", namespace) if (found := _refused(event, one)))
    for (reason, message), count in reasons.most_common(_SHOWN):
        advice = f"; {_ADVICE[reason]}" if reason in _ADVICE else ""
        yield f"{count} {'pod' if count == 1 else 'pods'}: {reason}: {message[:_LONGEST]}{advice}"


def _why(pod: Object) -> tuple[str, str] | None:
    """Reason and message of a pod that is not ready; None where it is, or is only beginning."""
    status = pod.get("status", {})
    for state in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = state.get("state", {}).get("waiting") or {}
        if waiting and waiting.get("reason") not in _BEGINNING:
            return str(waiting.get("reason")), str(waiting.get("message", "")).strip()
        ended = state.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            return str(ended.get("reason")), f"exit status {ended['exitCode']} {ended.get('message', '')}".strip()
    for entry in status.get("conditions") or ():
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            return str(entry.get("reason")), str(entry.get("message", ""))
    return None


def _refused(event: Object, one: Object) -> tuple[str, str] | None:
    """What the API server said when the workload, or its ReplicaSet, was refused a pod."""
    about = event.get("involvedObject", {})
    name = one["metadata"]["name"]
    own = about.get("name") == name or (about.get("kind") == "ReplicaSet" and about["name"].startswith(f"{name}-"))
    return ("FailedCreate", str(event.get("message", ""))) if own and event.get("reason") == "FailedCreate" else None
