"""What it costs to give pods their rails and to take these back: seconds, API requests, memory of programs.

The API server counts its requests (`apiserver_request_total`, staging/src/k8s.io/apiserver/pkg/endpoints/metrics of
Kubernetes). Not counted are those of the lab itself, and renewals of leases, which come with time.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.vm.run import VmRun

_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
_MEMORY = (
    "for path in $(grep -l kubepods /proc/[0-9]*/cgroup); do grep ^Pss: ${path%cgroup}smaps_rollup; done 2>/dev/null"
)
"""Prints the memory of each process in a pod on the node, in KiB, its share of what several map."""


class RequestCount(NamedTuple):
    """Requests to the API server for resources, and how many of them write."""

    requests: int
    writes: int


def count_requests(metrics: str) -> RequestCount:
    """Return the count in the metrics of an API server, without those for leases."""
    requests = writes = 0
    for text, value in _REQUESTS.findall(metrics):
        labels = dict(_LABEL.findall(text))
        if labels.get("resource") in {None, "", "leases"}:
            continue
        requests += round(float(value))
        writes += round(float(value)) if labels.get("verb") in _WRITES else 0
    return RequestCount(requests, writes)


@contextmanager
def measure_cost(run: VmRun, client: BlockingClient) -> Iterator[None]:
    """Note seconds, requests and writes of what is done meanwhile as figures of the run's phase. Raises KubeError."""
    before, start = count_requests(client.read_metrics()), time.monotonic()
    sent, written = client.sent, client.written
    yield
    run.figures["seconds"] = round(time.monotonic() - start, 1)
    sent, written = client.sent - sent, client.written - written
    after = count_requests(client.read_metrics())
    run.figures["requests"] = after.requests - before.requests - sent
    run.figures["writes"] = after.writes - before.writes - written


def measure_memory(run: VmRun) -> None:
    """Note the memory of all pods on all nodes, in MiB, as a figure of the run's phase."""
    results = run.run_on_servers(["sh", "-c", _MEMORY])
    lines = [line.split() for result in results for line in result.output.decode(errors="replace").splitlines()]
    run.figures["memoryMib"] = sum(int(words[1]) for words in lines) // 1024
