"""An API server for Multus, with pods and networks as objects but without a kubelet, and the count of its requests."""

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trackbed_lab.kubernetes import control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from bench.node import NAMESPACE

_GROUP: Final = "k8s.cni.cncf.io"
_KIND: Final = "NetworkAttachmentDefinition"
_PLURAL: Final = "network-attachment-definitions"
_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
_METRICS_S: Final = 30
_ASKED: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_WATCHED: Final = ("pods", "events", _PLURAL)
_READS: Final = ("GET", "LIST", "WATCH")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane."""

    kubeconfig: Path
    client: BlockingClient

    def pod(self, name: str, networks: Sequence[str]) -> str:
        """Create a pod with these networks as net1, net2, ...; return its UID."""
        requests = [{"name": network, "interface": f"net{number}"} for number, network in enumerate(networks, 1)]
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": {_ANNOTATION: json.dumps(requests)}}
        spec = {"nodeName": "bench", "containers": [{"name": "main", "image": "none"}]}
        made = self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return str(made.body["metadata"]["uid"])

    def network(self, config: Mapping[str, object]) -> None:
        """Create a network of the name in its configuration."""
        metadata = {"name": config["name"], "namespace": NAMESPACE}
        head = {"apiVersion": f"{_GROUP}/v1", "kind": _KIND, "metadata": metadata}
        self.client.create({**head, "spec": {"config": json.dumps(config)}})

    def counts(self) -> dict[str, int]:
        """Return the number of requests about pods, their events and networks so far, and how many of them wrote.

        The benchmark's own requests (it creates pods) and the server's own watches are left out.
        """
        requests = {"API requests": 0, "API writes": 0}
        for labels, number in _requests(_metrics(self.kubeconfig)):
            requests["API requests"] += number
            requests["API writes"] += number if labels["verb"] not in _READS else 0
        return requests


@contextlib.contextmanager
def cluster(folder: Path, programs: Path) -> Iterator[Cluster]:
    """Run etcd and an API server with the CRD of networks in this network namespace, until the block ends."""
    with (
        control_plane.run_control_plane(folder, programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        crds.install_crds(client, [_definition()])
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        account = {"name": "default", "namespace": NAMESPACE}  # no controller manager runs that would make it
        client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        yield Cluster(kubeconfig, client)


def _definition() -> dict[str, Any]:
    spec = {"type": "object", "properties": {"config": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"plural": _PLURAL, "singular": _PLURAL.removesuffix("s"), "kind": _KIND}
    return {
        "apiVersion": crds.API,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{_PLURAL}.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _requests(metrics: str) -> Iterator[tuple[dict[str, str], int]]:
    for line in _ASKED.finditer(metrics):
        labels = dict(_LABEL.findall(line[1]))
        ours = (labels["verb"], labels["resource"], labels["subresource"]) == ("POST", "pods", "")
        if labels["resource"] in _WATCHED and labels["verb"] != "WATCH" and not ours:
            yield labels, int(float(line[2]))


def _metrics(kubeconfig: Path) -> str:
    config = json.loads(kubeconfig.read_text())
    server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    trust = ssl.create_default_context(cafile=str(kubeconfig.with_name("cert.pem")))
    connection = http.client.HTTPSConnection(server.removeprefix("https://"), timeout=_METRICS_S, context=trust)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().read().decode()
