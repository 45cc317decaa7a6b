"""Pods that do not start or lack networks, and controllers that cannot create pods, by the cause of what is reported.

pods       conditions and containers of pods that are Pending, and of pods that kubelet has just refused; pods that run
           without the networks that they request
events     what kubelet, Multus and DRA drivers report of these pods, and controllers of pods that were refused
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.refine import find_missing_claims, refine
from trackbed.cluster.causes.reports import (
    Report,
    iter_controller_reports,
    report_passed_over,
    report_pod,
    report_refusal,
    sort_events,
)

_SHOWN_CHARACTERS = 400


class WaitingPods(msgspec.Struct, frozen=True):
    """Pods that do not start or lack networks for one cause: the first with what it reports, and their number."""

    id: str
    """Id of the cause; empty for a message that is not known."""
    title: str
    cause: str
    fix: str
    waits: bool
    """Whether nothing is broken, and they wait for other pods."""
    follows: bool
    count: int
    first: str
    """The first pod, or the controller whose pods are refused, as NAMESPACE/NAME or KIND NAMESPACE/NAME."""
    node: str
    """Node of the first pod; empty if it has none."""
    message: str


async def list_waiting_pods(client: DynamicClient, now: datetime) -> tuple[WaitingPods, ...]:
    """Return pods that do not start or lack networks, by cause: broken ones first, then by number. Raises KubeError.

    Of pods that request no network or device, only those with a known cause are returned.
    """
    pods = [pod async for pod in client.iter_objects("v1", "Pod", fields="status.phase=Pending")]
    refused = [pod async for pod in client.iter_objects("v1", "Pod", fields="status.phase=Failed")]
    running = client.iter_objects("v1", "Pod", fields="status.phase=Running")
    passed_over = [report async for pod in running if (report := report_passed_over(pod))]
    events = sort_events(await _list_warnings(client))
    by_pod = [(pod, report_pod(pod, events)) for pod in pods]
    candidates = [
        *(report for _, report in by_pod),
        *await find_missing_claims(client, (pod for pod, report in by_pod if report is None)),
        *(report_refusal(pod, now) for pod in refused),
        *passed_over,
        *iter_controller_reports(events, now),
    ]
    reports = await refine(client, [report for report in candidates if report])
    return _group_reports(reports)


async def _list_warnings(client: DynamicClient) -> list[Object]:
    """Return the warnings that have not expired; none if this account may not read them. Raises KubeError."""
    try:
        return [event async for event in client.iter_objects("v1", "Event", fields="type=Warning")]
    except ApiRefusedError:
        return []


def describe_pods(group: WaitingPods) -> Iterator[str]:
    """Yield the lines about a group: the cause, what to do, and the message that it was read from."""
    where = f"{group.first} on {group.node}" if group.node else group.first
    others = f", and {group.count - 1} more" if group.count > 1 else ""
    yield f"{where}{others}: {group.title}{f' ({group.id})' if group.id else ''}"
    yield f"what to do: {group.fix}"
    yield f"reported: {group.message}"


def _group_reports(reports: Iterable[Report]) -> tuple[WaitingPods, ...]:
    """Return the reports with the same cause together, in order: broken, what follows from it, pods that only wait."""
    by_cause = groupby(sorted(reports, key=_get_cause), _get_cause)
    groups = [_build_group(list(members)) for _, members in by_cause]
    return tuple(sorted(groups, key=lambda group: (group.waits, group.follows, not group.id, -group.count)))


def _get_cause(report: Report) -> tuple[str, str]:
    return report.diagnosis.id, report.diagnosis.title


def _build_group(members: list[Report]) -> WaitingPods:
    first = min(members, key=lambda report: report.subject)
    text = " ".join(first.message.split())
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"…{text[-_SHOWN_CHARACTERS:]}"
    cause = first.diagnosis
    return WaitingPods(
        cause.id,
        cause.title,
        cause.cause,
        cause.fix,
        cause.waits,
        cause.follows,
        len(members),
        first.subject,
        first.node,
        shown,
    )
