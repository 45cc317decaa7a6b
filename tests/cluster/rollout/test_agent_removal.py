"""Before stack native's agents are deleted they leave their nodes; what they are told is taken by a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.agent_removal import remove_agents
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.options import RunOptions
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile
from trackbed.cluster.stacks.native.daemon import NAME, build_daemon_set

NAMESPACE = "farewell"
OF = ApplySet("farewell", NAMESPACE)


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield blocking_client


def agents() -> Object:
    body = build_daemon_set("example.com/agent:1")
    return {**body, "metadata": {**body["metadata"], "namespace": NAMESPACE}}


def rolled(client: BlockingClient, *objects: Object) -> list[str]:
    """Put these there and nothing else; what was told."""
    messages: list[str] = []
    steps = [ApplyFile("", "agents", list(objects))] if objects else []
    options = RunOptions("trackbed-test", force=True, wait_seconds=0)
    client.run(StackRun(client.dynamic, OF, options, messages.append).apply_steps(steps))
    return messages


def left(client: BlockingClient, nodes: int, of: int = 2, observed: int = 99) -> None:
    """Say what the DaemonSet's controller would, of its newest generation or one that is yet to come."""
    counts = {"desiredNumberScheduled": of, "updatedNumberScheduled": nodes, "numberReady": of}
    status = {**counts, "currentNumberScheduled": of, "numberMisscheduled": 0, "observedGeneration": observed}
    metadata = {"name": NAME, "namespace": NAMESPACE}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "status": status}
    client.apply(body, subresource="/status", manager="daemonset-controller", force=True)


def test_every_agent_takes_itself_out_and_stays_where_it_is(client: BlockingClient) -> None:
    rolled(client, agents())
    before = client.get("apps/v1", "DaemonSet", NAME, NAMESPACE)["spec"]["template"]["spec"]
    left(client, 2)
    messages: list[str] = []
    client.run(remove_agents(client.dynamic, NAMESPACE, messages.append))
    assert messages == []
    spec = client.get("apps/v1", "DaemonSet", NAME, NAMESPACE)["spec"]
    (first,), (agent,) = (spec["template"]["spec"][kind] for kind in ("initContainers", "containers"))
    words = "trackbed agent remove-cni /opt/cni/bin --networks /etc/cni/net.d"
    assert (" ".join(first["command"]), " ".join(agent["command"])) == (words, f"{words} --stay")
    assert {mount["mountPath"] for mount in first["volumeMounts"]} == {"/opt/cni/bin", "/etc/cni/net.d"}
    assert first["image"] == "example.com/agent:1"
    assert agent["volumeMounts"] == before["containers"][0]["volumeMounts"]
    assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"
    rolled(client)


def test_agents_that_are_wanted_no_longer_leave_first_and_a_node_that_is_down_is_told(client: BlockingClient) -> None:
    rolled(client, agents())
    left(client, 1)
    (message,) = rolled(client)
    assert message.startswith("continuing although agents have left 1 of 2 nodes: on the other nodes no pod can start")
    assert client.find("apps/v1", "DaemonSet", NAME, NAMESPACE) is None


def test_agents_that_no_controller_has_seen_yet_are_not_waited_for(client: BlockingClient) -> None:
    rolled(client, agents())
    client.run(remove_agents(client.dynamic, NAMESPACE, pytest.fail))
    assert "initContainers" not in client.get("apps/v1", "DaemonSet", NAME, NAMESPACE)["spec"]["template"]["spec"]
    assert rolled(client) == []


def test_agents_that_have_not_heard_of_it_yet_have_not_left(client: BlockingClient) -> None:
    rolled(client, agents())
    left(client, 2, observed=1)
    (message,) = rolled(client)
    assert message.startswith("continuing although agents have left 0 of 2 nodes")


def test_agents_on_no_node_are_not_counted_as_one_before_their_controller_has_heard(client: BlockingClient) -> None:
    rolled(client, agents())
    left(client, 0, of=0, observed=1)
    (message,) = rolled(client)
    assert message.startswith("continuing although no controller has seen yet that the agents, which are on no node")


def test_where_no_agents_are_nothing_is_done(client: BlockingClient) -> None:
    client.run(remove_agents(client.dynamic, "nowhere", pytest.fail))
