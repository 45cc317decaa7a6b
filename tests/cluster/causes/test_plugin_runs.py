"""What the real CNI plugins of other stacks say is named: each fails here as its users saw it fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.stack_faults import StackFault, load_stack_faults

from tests.cluster.causes.loose_crds import loose_crds
from tests.cluster.causes.plugin_runs import call_plugin, find_plugin
from tests.cluster.objects import crd
from trackbed.cluster.causes.catalogue import diagnose

RUNS = [fault for fault in load_stack_faults() if fault.run]
KINDS = {
    "network-attachment-definitions": ("NetworkAttachmentDefinition", "k8s.cni.cncf.io", "v1"),
    "ippools": ("IPPool", "whereabouts.cni.cncf.io", "v1alpha1"),
    "overlappingrangeipreservations": ("OverlappingRangeIPReservation", "whereabouts.cni.cncf.io", "v1alpha1"),
}
pytestmark = [
    pytest.mark.needs("root", "ip", "unshare"),
    pytest.mark.may_skip("other stacks' programs are not part of the project (TRACKBED_PROGRAMS)"),
]


@pytest.fixture(scope="module")
def kubeconfig(api_server: Path) -> Iterator[Path]:
    with connect(str(api_server)) as client:
        for name in ("default", "kube-system"):
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        kinds = [of_version(crd(plural, kind, group), version) for plural, (kind, group, version) in KINDS.items()]
        with loose_crds(client, kinds):
            yield api_server


@pytest.fixture
def client(kubeconfig: Path) -> Iterator[BlockingClient]:
    with connect(str(kubeconfig)) as blocking_client:
        yield blocking_client


def of_version(kind: dict[str, Any], version: str) -> dict[str, Any]:
    kind["spec"]["versions"][0]["name"] = version
    return kind


def give_cluster(fault: StackFault, kubeconfig: Path, client: BlockingClient) -> tuple[dict[str, Any], str]:
    """The configuration of a plugin that uses the cluster, and the UID of the pod; both as they are for others."""
    run = fault.run
    assert run
    config = copy.deepcopy(run.config)
    if run.plugin == "whereabouts":
        flat = kubeconfig.with_name("whereabouts.conf")
        flat.write_text(json.dumps({"datastore": "kubernetes", "kubernetes": {"kubeconfig": str(kubeconfig)}}))
        config["ipam"] |= {"configuration_path": str(flat), "kubernetes": {"kubeconfig": str(kubeconfig)}}
    if run.plugin != "multus":
        return config, "1"
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    network = '{"cniVersion": "0.4.0", "name": "nothing", "type": "sriov-that-is-not-here"}'
    definition = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    client.apply({**definition, "metadata": {"name": "nothing"}, "spec": {"config": network}})
    metadata = {"name": "train-0", "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": run.networks}}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, force=True)
    delegate = {"cniVersion": "0.4.0", "name": "primary", "type": "loopback"}
    config |= {
        "type": "multus",
        "kubeconfig": str(kubeconfig),
        "delegates": [delegate],
        "binDir": str(find_plugin("std/loopback").parent),
    }
    return config, str(client.get("v1", "Pod", "train-0", "default")["metadata"]["uid"])


@pytest.mark.parametrize("fault", RUNS, ids=lambda fault: f"{fault.stack}-{fault.id}")
def test_the_message_of_the_program_itself_is_named(
    fault: StackFault, kubeconfig: Path, client: BlockingClient
) -> None:
    assert fault.run
    find_plugin(fault.run.plugin)
    config, uid = give_cluster(fault, kubeconfig, client)
    message = call_plugin(fault.run, config, uid)
    if fault.run.plugin != "multus":
        message = f'Multus: [default/train-0/1:rail0]: error adding container to network "rail0": {message}'
    cause = diagnose(message)
    assert (cause.id if cause else message) == fault.names, message
