"""With the webhook dead, namespaces that asked for rails wait for it; all others go on as if there were none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.live import make_namespace, refusal, registered
from tests.cluster.webhook.values import fabric, pod
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.webhook.cluster_state import ClusterState

RAILS = {"trackbed.dev/rails": "all"}
KNOWN = ClusterState({"train": fabric("train", "spiderpool", 4)})


@pytest.fixture(scope="module")
def dead(client: BlockingClient) -> Iterator[BlockingClient]:
    """The API server after the webhook, registered and with namespaces that asked, has died."""
    with registered(client, KNOWN) as webhook:
        make_namespace(client, "other")
        make_namespace(client, "opted-in", RAILS)
        make_namespace(client, "trackbed-system", RAILS)
        webhook.stop()
        yield client


ALIVE = {
    "a pod of another namespace": pod("other"),
    "a pod of another namespace that asks for rails": pod("other", RAILS),
    "a pod of the webhook's own namespace": pod("trackbed-system", RAILS),
    "a pod of kube-system": pod("kube-system", RAILS),
    "a static pod's mirror": pod("opted-in", {"kubernetes.io/config.mirror": "x"}, nodeName="gpu-0"),
    "a namespace that asks": {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "newcomer", "annotations": RAILS},
    },
}


@pytest.mark.parametrize("body", ALIVE.values(), ids=ALIVE)
def test_what_does_not_need_the_webhook_goes_on(dead: BlockingClient, body: dict[str, object]) -> None:
    make_namespace(dead, "kube-system")
    made = dead.create(body, dry_run=True)
    assert made.status == 201
    assert made.body.get("spec", {}).get("nodeSelector") is None


def test_a_pod_that_must_not_run_without_rails_waits(dead: BlockingClient) -> None:
    with pytest.raises(ApiRefusedError) as caught:
        dead.create(pod("opted-in"), dry_run=True)
    assert 'failed calling webhook "pods-in-opted-in-namespaces.trackbed.dev"' in caught.value.message
    assert caught.value.status == 500


def test_it_goes_on_when_the_webhook_is_back(client: BlockingClient) -> None:
    with registered(client, KNOWN):
        assert refusal(client, pod("opted-in")) == ""
