"""Pods through a real API server that calls the webhook: what has become of each, and that it is valid and stays so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.live import make_namespace, registered
from tests.cluster.webhook.rows import BEFORE, FABRIC, NAMESPACES, ROWS, Row, read
from tests.cluster.webhook.values import NO_RAILS, RAILS, every_stack, pod
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import MODULES
from trackbed.cluster.webhook.cluster_state import ClusterState

FABRICS = every_stack()


@pytest.fixture(scope="module")
def server(client: BlockingClient) -> Iterator[BlockingClient]:
    """The API server with a webhook that knows a Fabric of every stack."""
    make_namespace(client, *BEFORE)
    with registered(client, ClusterState(FABRICS)):
        for name, (rails, labels) in NAMESPACES.items():
            make_namespace(client, name, rails, labels)
        yield client


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_becomes_of_a_pod(server: BlockingClient, row: Row) -> None:
    if row.refused:
        with pytest.raises(ApiRefusedError) as caught:
            server.create(row.pod, dry_run=True)
        assert (row.refused in caught.value.message, caught.value.status) == (True, 422), caught.value.message
        assert "Traceback" not in caught.value.message
        return
    answer = server.create(row.pod, dry_run=True)
    facts = read(answer.body)
    assert {key: facts[key] for key in row.carries} == row.carries
    assert row.warned in "\n".join(answer.warnings)
    assert row.holds is None or row.holds(facts)
    unchanged(server, answer.body)


@pytest.mark.parametrize("name", sorted(set(MODULES) - NO_RAILS))
@pytest.mark.parametrize("rail_list", ["all", "1,2"])
def test_a_pod_has_its_rails_on_every_stack(server: BlockingClient, name: str, rail_list: str) -> None:
    body = pod("default", {"trackbed.dev/rails": rail_list, FABRIC: name})
    body["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Gi"
    answer = server.create(body, dry_run=True)
    rails = tuple(range(RAILS)) if rail_list == "all" else (1, 2)
    carries(answer.body, FABRICS[name].get_requirements(rails))
    unchanged(server, answer.body)


def carries(made: Object, wanted: Any) -> None:
    """All that the stack wants on a pod is there, and no rail besides."""
    spec, annotations = made["spec"], made["metadata"]["annotations"]
    main, access = spec["containers"][0], wanted.access
    networks = json.loads(annotations.get("k8s.v1.cni.cncf.io/networks", "[]"))
    assert [(network["namespace"], network["name"], network["interface"]) for network in networks] == [
        (network.namespace, network.name, network.interface) for network in access.networks
    ]
    held = {
        name: value for name, value in main["resources"]["limits"].items() if name not in {"nvidia.com/gpu", "memory"}
    }
    assert held == {name: str(value) for name, value in (*access.resources, *HUGE_PAGES.get(access.hugepages, ()))}
    claims = [claim["resourceClaimTemplateName"] for claim in spec.get("resourceClaims", ())]
    assert claims == [claim.template for claim in access.claims]
    assert dict(access.annotations).items() <= annotations.items()
    assert {variable["name"]: variable.get("value") for variable in main["env"]} == dict(wanted.variables)
    assert dict(wanted.selector).items() <= spec.get("nodeSelector", {}).items()
    folders = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
    assert folders == [path.path for path in access.host_paths]
    context = main["securityContext"]
    assert context == ({"privileged": True} if access.privileged else {"capabilities": {"add": ["IPC_LOCK"]}})


HUGE_PAGES = {(("hugepages-2Mi", "5120Mi"),): [("hugepages-2Mi", "5Gi")]}
"""As the API server writes the quantity."""


def unchanged(server: BlockingClient, made: Object) -> None:
    """Sent again, the pod stays as it is: the webhook is idempotent, and its pods are valid."""
    again = {key: made[key] for key in ("apiVersion", "kind", "spec")}
    metadata = {key: made["metadata"][key] for key in ("name", "namespace", "annotations") if key in made["metadata"]}
    answer = server.create({**again, "metadata": metadata}, dry_run=True)
    assert answer.body["spec"] == made["spec"]
    assert answer.body["metadata"].get("annotations") == made["metadata"].get("annotations")
    assert not [warning for warning in answer.warnings if "added" in warning]
