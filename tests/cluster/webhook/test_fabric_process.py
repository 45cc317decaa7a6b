"""A Fabric is reviewed in a process of its own: with the same verdict, within limits, and while pods are reviewed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import trackbed
from tests.cluster.stacks.sites import HEAD
from tests.cluster.webhook.live import Fixed, Webhook
from tests.cluster.webhook.requests import request
from tests.cluster.webhook.test_fabrics import SLOTS, addressed, document
from tests.cluster.webhook.test_server import asked, review
from tests.cluster.webhook.values import fabric, pod
from trackbed.cluster.webhook import fabric_process, fabrics
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState, Namespace
from trackbed.cluster.webhook.fabric_process import FabricReviewer
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict
from trackbed.fabric.model.ranges import parse_range

pytestmark = pytest.mark.needs("processes")

KNOWN = ClusterState(
    {"other": fabric("other", "network-operator-macvlan", 2)},
    namespaces={"default": Namespace()},
    slots={"train": SLOTS},
    ranges=ClusterRanges(pods=(parse_range("10.80.0.0/20"),), nodes=(parse_range("fd00:1::/64"),)),
)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "new": (document(names={"network": "train{rail}", "resource": "rdma/train{rail}"}), None),
    "of the names of another": (document(), None),
    "in the range of pods": (document(**addressed("10.80.0.0/16")), None),
    "renumbered": (document(**addressed("10.90.0.0/16")), document()),
    "unsound": (document(rails=65), None),
}


def decide(body: dict[str, Any], before: dict[str, Any] | None = None) -> Verdict:
    return asyncio.run(FabricReviewer().decide(request(body, before), KNOWN, client=""))


@pytest.mark.parametrize(("body", "before"), CASES.values(), ids=CASES)
def test_the_verdict_is_that_of_the_function(body: dict[str, Any], before: dict[str, Any] | None) -> None:
    assert decide(body, before) == fabrics.decide(request(body, before), KNOWN)


def test_what_is_no_fabric_is_refused_as_such() -> None:
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep}
    assert decide(document(rails=deep)).refusal == "spec: spec is nested too deeply to be read [too-deep]"
    for body in (b"[]", b'{"metadata": {"name": []}}', b"[" * 5000):
        with pytest.raises(ReviewError, match="the review's object is none"):
            asyncio.run(FabricReviewer().decide(ReviewRequest("u", object=msgspec.Raw(body)), KNOWN, client=""))


LIMITS = {
    "FABRIC_SECONDS": (0.01, "the Fabric could not be planned within 0.01 s: cut it into several Fabrics"),
    "MEMORY_BYTES": (32 << 20, "the Fabric could not be planned within 32 MiB of memory: cut it into several Fabrics"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_fabric_beyond_a_limit_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, message = LIMITS[name]
    monkeypatch.setattr(fabric_process, name, value)
    assert message in str(decide(document(nodes=[{"hosts": "gpu-[0-49999]"}])).refusal)


def test_a_process_that_ends_otherwise_is_not_taken_for_a_large_fabric(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fabric_process, "MEMORY_BYTES", "no number")
    refusal = str(decide(document()).refusal)
    assert "the review's process ended with status 1" in refusal
    assert "memory: cut it" not in refusal
    assert "invalid literal for int()" in capfd.readouterr().err


def test_the_process_imports_from_wherever_the_webhook_does() -> None:
    program = "import sys; sys.path[:] = sys.argv[1:]; from tests.cluster.webhook.test_fabric_process import decide, "
    program += "document; print(decide(document(rails=65)).refusal)"
    interpreter = str(Path(sys.executable).resolve())  # without this environment's packages
    command = [interpreter, "-IS", "-c", program, *sys.path, str(Path(trackbed.__file__).parents[1])]
    process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert process.stdout.startswith("spec.rails"), process.stderr


@pytest.mark.parametrize(
    ("limit", "clients", "reviewed"),
    [("MAX_REVIEWS", "abc", "a"), ("MAX_REVIEWS_OF_CLIENT", "aab", "ab")],
    ids=["of all", "of a client"],
)
def test_more_fabrics_than_may_wait_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, limit: str, clients: str, reviewed: str
) -> None:
    monkeypatch.setattr(fabric_process, limit, 1)

    async def run() -> list[object]:
        reviewer = FabricReviewer()
        reviews = [reviewer.decide(request(document()), KNOWN, client=client) for client in clients]
        return await asyncio.gather(*reviews, return_exceptions=True)

    outcomes = dict(zip(reversed(clients), reversed(asyncio.run(run())), strict=True))
    assert {client: isinstance(outcome, Verdict) for client, outcome in outcomes.items()} == {
        client: client in reviewed for client in clients
    }


def test_a_client_with_many_fabrics_does_not_keep_out_another(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    async def decide_in_process(question: bytes) -> Verdict:
        await asyncio.sleep(0)
        order.append(msgspec.json.decode(question)["object"]["metadata"]["name"])
        return Verdict()

    async def run() -> None:
        reviewer = FabricReviewer()
        names = [*(("many", f"many{number}") for number in range(4)), ("one", "one")]
        bodies = [(client, {**document(), "metadata": {"name": name}}) for client, name in names]
        await asyncio.gather(*(reviewer.decide(request(body), KNOWN, client=client) for client, body in bodies))

    monkeypatch.setattr(fabric_process, "_decide_in_process", decide_in_process)
    asyncio.run(run())
    assert order == ["many0", "one", "many1", "many2", "many3"]


def test_pods_are_reviewed_while_a_large_fabric_is() -> None:
    spec = {"nodes": [{"hosts": "gpu-[0-29999]"}], "rails": 8, "addressing": {"scheme": "none"}}
    large = {**HEAD, "metadata": {"name": "large"}, "spec": {**spec, "kubernetes": {"stack": "aws-efa"}}}
    webhook = Webhook(Fixed(state=KNOWN))
    thread = threading.Thread(target=asked, args=(webhook, "/fabrics", review(large)))
    thread.start()
    waited = []
    while thread.is_alive():
        begin = time.monotonic()
        assert asked(webhook, "/pods", review(pod()))[0] == 200
        waited.append(time.monotonic() - begin)
    thread.join()
    webhook.stop()
    assert len(waited) > 5
    assert max(waited) < 2
