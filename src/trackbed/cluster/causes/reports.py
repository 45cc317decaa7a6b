"""What is reported of pods that do not start: by the scheduler, kubelet, Multus, DRA drivers and controllers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.catalogue import NamedCause, diagnose, fill_cause, load_causes

NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"
_STATUS_ANNOTATIONS = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")
"""What Multus writes about the networks of a pod that it has attached; older releases have the second one."""
_REFUSALS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError", "OutOfDevices"})
"""Reasons of pods that kubelet refused; a pod does not recover from them."""
_REPORTED_KINDS = frozenset({"CIDRPool", "IPPool"})
"""Kinds other than pods whose warnings count: NV-IPAM says of a pool that it has no block for a node."""
_RECENT = timedelta(minutes=20)
"""How long a refusal counts: controllers try again at least this often, so an older one is mended or given up."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_UNKNOWN_FIX = "`kubectl describe pod` has all events of the pod"
UNKNOWN = NamedCause("", "the message is not one that Trackbed knows", "", _UNKNOWN_FIX, waits=False, follows=False)
"""NamedCause of a message that no file of `programs/` has."""

Events = Mapping[tuple[str, str, str], list[Object]]
"""Events by kind, namespace and name of what they are about, the newest first."""


class Report(NamedTuple):
    """What is reported of a pod or controller."""

    subject: str
    """NAMESPACE/NAME of the pod, or KIND NAMESPACE/NAME of the controller."""
    node: str
    """Node of the pod; empty if it has none."""
    message: str
    diagnosis: NamedCause


def sort_events(events: Iterable[Object]) -> Events:
    """Return the events by kind, namespace and name of what they are about, the newest first."""
    by_object: dict[tuple[str, str, str], list[Object]] = defaultdict(list)
    for event in sorted(events, key=_read_event_time, reverse=True):
        about = event.get("involvedObject") or {}
        by_object[str(about.get("kind")), str(about.get("namespace", "")), str(about.get("name"))].append(event)
    return by_object


def _read_event_time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def report_pod(pod: Object, events: Events) -> Report | None:
    """Return what is reported of a Pending pod; None if nothing is, or if it is not about rails."""
    metadata, node = pod["metadata"], str(pod.get("spec", {}).get("nodeName", ""))
    pod_events = events.get(("Pod", metadata["namespace"], metadata["name"]), [])
    messages = [*_iter_status_messages(pod), *_iter_event_messages(pod_events, node)]
    known = ((message, diagnosis) for message in messages if (diagnosis := diagnose(message)))
    message, diagnosis = next(known, (messages[0] if messages else "", UNKNOWN))
    if not message or ((not diagnosis.id or diagnosis.follows) and not _requests_rails(pod)):
        return None
    return Report(f"{metadata['namespace']}/{metadata['name']}", node, message, diagnosis)


def report_passed_over(pod: Object) -> Report | None:
    """Return a report for a pod that runs without the networks that it requests, because Multus was not called."""
    metadata, spec = pod["metadata"], pod.get("spec", {})
    annotations = metadata.get("annotations") or {}
    networks = str(annotations.get(NETWORKS_ANNOTATION) or "").strip()
    if not networks or spec.get("hostNetwork") or any(key in annotations for key in _STATUS_ANNOTATIONS):
        return None
    node, message = str(spec.get("nodeName", "")), f"{NETWORKS_ANNOTATION} without {_STATUS_ANNOTATIONS[0]}"
    cause = fill_cause(load_causes()["multus-not-called"], {"node": node})
    return Report(f"{metadata['namespace']}/{metadata['name']}", node, message, cause)


def report_refusal(pod: Object, now: datetime) -> Report | None:
    """Return why kubelet has refused a pod; None if it was not refused, or long ago."""
    metadata, status = pod["metadata"], pod.get("status", {})
    if status.get("reason") not in _REFUSALS or not _is_recent(str(metadata.get("creationTimestamp", "")), now):
        return None
    message = f"{status['reason']}: {status.get('message', '')}"
    subject, node = f"{metadata['namespace']}/{metadata['name']}", str(pod.get("spec", {}).get("nodeName", ""))
    return Report(subject, node, message, diagnose(message) or UNKNOWN)


def iter_controller_reports(events: Events, now: datetime) -> Iterator[Report]:
    """Yield why controllers cannot create pods, and what is wrong with pools, as far as the cause is known."""
    for (kind, namespace, name), object_events in events.items():
        newest = object_events[0]
        is_of_interest = newest.get("reason") == "FailedCreate" or kind in _REPORTED_KINDS
        if not is_of_interest or not _is_recent(_read_event_time(newest), now):
            continue
        if diagnosis := diagnose(message := str(newest.get("message", ""))):
            yield Report(f"{kind} {namespace}/{name}", "", message, diagnosis)


def _iter_status_messages(pod: Object) -> Iterator[str]:
    """Yield the messages in a pod's status: of containers that do not start, and of the scheduler."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message") and waiting.get("reason") not in _STARTING:
            yield str(waiting["message"])
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield str(condition.get("message", ""))


def _iter_event_messages(events: Iterable[Object], node: str) -> Iterator[str]:
    """Yield the messages of a pod's events, the newest first; those from before it had a node count no more."""
    for event in events:
        if not (node and event.get("reason") == "FailedScheduling"):
            yield str(event.get("message", ""))


def _requests_rails(pod: Object) -> bool:
    """Return whether a pod requests networks, claims or devices."""
    spec, annotations = pod.get("spec") or {}, pod["metadata"].get("annotations") or {}
    limits = (
        container.get("resources", {}).get("limits") or {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    )
    return bool(
        NETWORKS_ANNOTATION in annotations
        or spec.get("resourceClaims")
        or any("/" in name for each in limits for name in each)
    )


def _is_recent(time: str, now: datetime) -> bool:
    """Return whether a time of the API server is recent; a time that cannot be read is not."""
    try:
        return now - datetime.fromisoformat(time) < _RECENT
    except (ValueError, TypeError):
        return False
