"""Rail 1 of a Spectrum-X site of 64 hosts: what a published walk-through printed, and what comes out of its netplan.

The objects are equal field by field but for what is wrong or left out in print:

- its `resourceList` ends in a comma, which is no JSON: the plugin would not start;
- the NicClusterPolicy names no image, repository and version for the plugin;
- its pool has no nodeSelector: NV-IPAM gives every node of the cluster a /31, control plane included, and so takes
  those of hosts that come later;
- its `gatewayIndex: 0` contradicts its own static entries, whose gateways are the odd addresses: a host without an
  entry would take its own address for its gateway, ours says 1;
- it shows neither Multus nor NV-IPAM in the NicClusterPolicy, without which neither network nor pool does anything.

Not wrong but worth knowing: the route to the /12 makes the one to the /15 redundant. Both stand in the host files too,
so they stay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.fabric.importers.netplan import import_netplan
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan

HOSTS = Path(__file__).parents[3] / "examples" / "spectrum-x-64"


@pytest.fixture(scope="module")
def rendered() -> list[Manifest]:
    """The objects of the site, its rails named as in print: from 1 on."""
    files = {path.stem: [(path.name, path.read_bytes())] for path in HOSTS.iterdir()}
    imported = import_netplan(files, "site")
    document: dict[str, Any] = json.loads(json.dumps(imported.document))
    document["spec"]["names"] = {"network": "rail-{number}", "resource": "nvidia.com/rail-{number}"}
    document["spec"]["rdma"] = {"namespaceMode": "shared"}  # in exclusive mode the network is another
    planned = compute_plan(Fabric.model_validate(document), imported.lock)
    return list(iter_objects(load_stack("network-operator-hostdevice"), planned))


def one(rendered: list[Manifest], kind: str, name: str) -> Manifest:
    return next(result for result in rendered if (result["kind"], result["metadata"]["name"]) == (kind, name))


def test_the_network_is_the_printed_one(rendered: list[Manifest]) -> None:
    network = one(rendered, "HostDeviceNetwork", "rail-1")
    network["spec"]["ipam"] = json.loads(network["spec"]["ipam"])
    assert network == {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "HostDeviceNetwork",
        "metadata": {"name": "rail-1"},
        "spec": {
            "networkNamespace": "default",
            "resourceName": "nvidia.com/rail-1",
            "ipam": {"type": "nv-ipam", "poolName": "rail-1", "poolType": "cidrpool"},
        },
    }


def test_the_pool_is_the_printed_one(rendered: list[Manifest]) -> None:
    pool = one(rendered, "CIDRPool", "rail-1")
    allocations = pool["spec"].pop("staticAllocations")
    assert pool["spec"].pop("nodeSelector")  # not in print
    assert pool == {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": "CIDRPool",
        "metadata": {"name": "rail-1", "namespace": "nvidia-network-operator"},
        "spec": {
            "cidr": "172.16.0.0/15",
            "gatewayIndex": 1,  # in print 0
            "perNodeNetworkPrefix": 31,
            "routes": [{"dst": "172.16.0.0/15"}, {"dst": "172.16.0.0/12"}],
        },
    }
    assert len(allocations) == 64
    assert [allocations[index] for index in (0, 1, 62, 63)] == [
        {"gateway": "172.16.0.1", "nodeName": "worker-gpu-0", "prefix": "172.16.0.0/31"},
        {"gateway": "172.16.0.3", "nodeName": "worker-gpu-1", "prefix": "172.16.0.2/31"},
        {"gateway": "172.16.1.61", "nodeName": "worker-gpu-62", "prefix": "172.16.1.60/31"},
        {"gateway": "172.16.1.63", "nodeName": "worker-gpu-63", "prefix": "172.16.1.62/31"},
    ]


def test_the_resources_are_the_printed_ones(rendered: list[Manifest]) -> None:
    policy = one(rendered, "NicClusterPolicy", "nic-cluster-policy")
    listed = json.loads(policy["spec"]["sriovDevicePlugin"]["config"])["resourceList"]
    assert [listed[0], listed[-1]] == [
        {
            "resourcePrefix": "nvidia.com",
            "resourceName": "rail-1",
            "selectors": {"isRdma": True, "pciAddresses": ["0000:7a:00.0"]},
        },
        {
            "resourcePrefix": "nvidia.com",
            "resourceName": "rail-8",
            "selectors": {"isRdma": True, "pciAddresses": ["0000:42:00.0"]},
        },
    ]
    assert len(listed) == 8
