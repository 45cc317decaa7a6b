"""What is admitted, works: it plans, renders for everything, and applies, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.edge_fabrics import edge_fabrics
from tests.cluster.webhook.live import refusal, registered
from tests.cluster.webhook.requests import request
from tests.examples import count_examples
from tests.kinds import installed
from trackbed.cluster.webhook.cluster_state import ClusterState
from trackbed.cluster.webhook.fabrics import decide

pytestmark = [pytest.mark.needs("root", "sh"), pytest.mark.slow]

ROOT = Path(__file__).parents[3]


class Worker:
    """A process that does all that follows from a Fabric (`tests.cluster.webhook.admitted`)."""

    def __init__(self) -> None:
        argv = [sys.executable, "-m", "tests.cluster.webhook.admitted"]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.admitted = self.reviewed = 0

    def review(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return what came of a Fabric."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps(body)}\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline() or '{"error": "the process ended"}')
        self.reviewed += 1
        self.admitted += "admitted" in answer
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    process = Worker()
    yield process
    process.stop()
    print(f"{process.admitted} of {process.reviewed} Fabrics were admitted")  # noqa: T201 - the figure of a long run
    assert process.admitted * 25 > process.reviewed


@pytest.fixture(scope="module")
def server(client: BlockingClient) -> Iterator[BlockingClient]:
    """The API server with our CRDs and the webhook."""
    installed(client)
    with registered(client, ClusterState()):
        yield client


@settings(max_examples=count_examples(25), suppress_health_check=list(HealthCheck))
@given(body=edge_fabrics())
def test_an_api_server_admits_what_schema_and_webhook_admit(server: BlockingClient, body: dict[str, Any]) -> None:
    verdict = decide(request(body), ClusterState())
    reason = refusal(server, body)
    event("refused" if reason else "admitted")
    assert (not reason) == (verdict.refusal is None), (reason, verdict.refusal)


@settings(max_examples=count_examples(60), suppress_health_check=list(HealthCheck))
@given(body=edge_fabrics())
def test_what_is_admitted_plans_renders_and_applies(worker: Worker, body: dict[str, Any]) -> None:
    answer = worker.review(body)
    event("admitted" if "admitted" in answer else answer.get("refusal", "error")[:60])
    assert "error" not in answer, answer["error"]
