"""Stack native's policies and the webhook in one cluster: each pod gets its rails once, and all that goes with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.stacks.admission import install
from tests.cluster.stacks.fabric_of import FLAT
from tests.cluster.stacks.fabric_of import fabric as plan_of
from tests.cluster.webhook.live import make_namespace, registered
from tests.cluster.webhook.rows import FABRIC, read
from tests.cluster.webhook.values import fabric, pod
from trackbed.cluster.stacks.native.annotation import build_policies
from trackbed.cluster.webhook.cluster_state import ClusterState

COUNT = 4
RAILS = "trackbed.dev/rails"
ALL = {f"rail{rail}": "1" for rail in range(COUNT)}


@pytest.fixture(scope="module")
def both(client: BlockingClient) -> Iterator[BlockingClient]:
    """Policies of Fabric train, and a webhook that knows it and another one."""
    make_namespace(client, "default")
    install(client, COUNT)
    other = fabric("other", "spiderpool", COUNT, names={"network": "other{rail}", "resource": "other{rail}"})
    try:
        with registered(client, ClusterState({"train": fabric("train", "native", COUNT), "other": other})):
            make_namespace(client, "by-default-train", {RAILS: "all", FABRIC: "train"})
            make_namespace(client, "by-default-other", {RAILS: "2", FABRIC: "other"})
            yield client
    finally:
        for policy in build_policies(plan_of(addressing=FLAT)):
            client.delete(policy)


GIVEN = {
    "by its own word": (pod(annotations={RAILS: "all", FABRIC: "train"}), ALL),
    "some": (pod(annotations={RAILS: "0,2", FABRIC: "train"}), {"rail0": "1", "rail2": "1"}),
    "by default": (pod("by-default-train"), ALL),
    "of the other Fabric": (pod(annotations={RAILS: "1", FABRIC: "other"}), {"other0": "1"}),
    "of the other Fabric by default": (pod("by-default-other"), {"other0": "1", "other1": "1"}),
}


@pytest.mark.parametrize(("body", "rails"), GIVEN.values(), ids=GIVEN)
def test_a_pod_gets_its_rails_once_and_all_that_goes_with_them(
    both: BlockingClient, body: dict[str, object], rails: dict[str, str]
) -> None:
    facts = read(both.create(body, dry_run=True).body)
    assert facts["resources"] == {"main": rails}
    assert (facts["ipc_lock"], facts["shm"]) == (["main"], ["main"])
    assert facts["env"]["main"]["NCCL_SOCKET_IFNAME"] == "=eth0"
