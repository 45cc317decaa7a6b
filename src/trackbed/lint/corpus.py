"""The documents of one run with the networks, resources and pods they define: the input of every rule."""

from dataclasses import dataclass

from trackbed.lint.document import Document
from trackbed.lint.kustomize import Builds, read_builds
from trackbed.lint.networks import Network, iter_networks
from trackbed.lint.offers import Offer, iter_offers
from trackbed.lint.pods import PodTemplate, find_pod_templates


@dataclass(frozen=True, slots=True)
class Corpus:
    """The documents of the input, indexed for the rules. No rule depends on the order of files or objects."""

    documents: tuple[Document, ...]
    kinds: dict[str, tuple[Document, ...]]
    networks: tuple[Network, ...]
    networks_by_name: dict[tuple[str, str], Network]
    """Networks by (namespace, name)."""
    offers: tuple[Offer, ...]
    pods: tuple[PodTemplate, ...]
    builds: Builds
    node_count: int | None = None
    """Number of nodes (--node-count); None if unknown."""

    def select_kinds(self, *kinds: str) -> tuple[Document, ...]:
        """Return the documents of these Kubernetes kinds."""
        return tuple(doc for kind in kinds for doc in self.kinds.get(kind, ()))

    def find_networks(self, pod: PodTemplate) -> list[Network]:
        """Return the networks of the input that a pod requests, each once."""
        names = dict.fromkeys((request.namespace or pod.namespace, request.name) for request in pod.networks)
        return [self.networks_by_name[name] for name in names if name in self.networks_by_name]


def index_documents(documents: list[Document], node_count: int | None = None) -> Corpus:
    """Index the documents by kind, and collect the networks, resources and pods they define."""
    kinds: dict[str, list[Document]] = {}
    for doc in documents:
        kinds.setdefault(doc.kind, []).append(doc)
    networks = tuple(network for doc in documents for network in iter_networks(doc))
    return Corpus(
        tuple(documents),
        {kind: tuple(docs) for kind, docs in kinds.items()},
        networks,
        {(network.namespace, network.name): network for network in reversed(networks)},
        tuple(offer for doc in documents for offer in iter_offers(doc)),
        tuple(pod for doc in documents for pod in find_pod_templates(doc)),
        read_builds(documents),
        node_count,
    )
