"""The documents of one run with the networks, resources and pods they define: the input of every rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.kustomize import Builds, read_builds
from trackbed.lint.networks import Network, iter_networks
from trackbed.lint.offers import Offer, iter_offers
from trackbed.lint.pods import NetworkRequest, PodTemplate, find_pod_templates


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of the input, indexed for the rules. No rule depends on the order of files or objects."""

    documents: tuple[Document, ...]
    kinds: dict[str, tuple[Document, ...]]
    networks: tuple[Network, ...]
    networks_by_name: dict[tuple[str, str], dict[str, Network]]
    """Networks by (namespace, name), the first of each folder by its folder: several where files are alternatives."""
    offers: tuple[Offer, ...]
    pods: tuple[PodTemplate, ...]
    builds: Builds
    node_count: int | None = None
    """Number of nodes (--node-count); None if unknown."""

    def select_kinds(self, *kinds: str) -> tuple[Document, ...]:
        """Return the documents of these Kubernetes kinds."""
        return tuple(doc for kind in kinds for doc in self.kinds.get(kind, ()))

    def find_network(self, pod: PodTemplate, request: NetworkRequest) -> Network | None:
        """Return the network that a pod requests, of several that of the pod's folder; None if the input lacks it."""
        networks = self.networks_by_name.get((request.namespace or pod.namespace, request.name), {})
        return choose_nearest(networks, pod.doc)

    def find_networks(self, pod: PodTemplate) -> list[Network]:
        """Return the networks of the input that a pod requests, each once."""
        networks = (self.find_network(pod, request) for request in pod.networks)
        return list({(network.namespace, network.name): network for network in networks if network}.values())

    def weigh(self, breach: Breach, doc: Document, other: Document) -> Breach:
        """Return a contradiction of two objects; a note where no folder or Kustomization holds both.

        The folders of a repository are alternatives more often than parts of one cluster.
        """
        files = doc.tree.source.file, other.tree.source.file
        if doc.folder == other.folder or self.builds.are_together(*files):
            return breach
        place = other.tree.find_place()
        message = f"{breach.message}, if {place.file}:{place.line} is applied as well"
        return breach._replace(message=message, severity="note", edit=None)


def choose_nearest(networks: Mapping[str, Network], doc: Document) -> Network | None:
    """Return the network of the object's folder, or else the first; None if there is none."""
    return networks.get(doc.folder) or next(iter(networks.values()), None)


def index_documents(documents: list[Document], node_count: int | None = None) -> Corpus:
    """Index the documents by kind, and collect the networks, resources and pods they define."""
    kinds: dict[str, list[Document]] = {}
    for doc in documents:
        kinds.setdefault(doc.kind, []).append(doc)
    networks = tuple(network for doc in documents for network in iter_networks(doc))
    networks_by_name: dict[tuple[str, str], dict[str, Network]] = {}
    for network in networks:
        by_folder = networks_by_name.setdefault((network.namespace, network.name), {})
        by_folder.setdefault(network.doc.folder, network)
    return Corpus(
        tuple(documents),
        {kind: tuple(docs) for kind, docs in kinds.items()},
        networks,
        networks_by_name,
        tuple(offer for doc in documents for offer in iter_offers(doc)),
        tuple(pod for doc in documents for pod in find_pod_templates(doc)),
        read_builds(documents),
        node_count,
    )
