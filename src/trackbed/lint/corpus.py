"""The documents of one run with the networks, resources and pods they define: the input of every rule."""

from dataclasses import dataclass

from trackbed.lint.document import Document
from trackbed.lint.networks import Network, find_networks
from trackbed.lint.offers import Offer, find_offers
from trackbed.lint.pods import PodTemplate, find_pods


@dataclass(frozen=True, slots=True)
class Corpus:
    """The indexed input. No rule depends on the order of files or objects."""

    documents: tuple[Document, ...]
    kinds: dict[str, tuple[Document, ...]]
    networks: tuple[Network, ...]
    networks_by_name: dict[tuple[str, str], Network]
    """By namespace and name."""
    offers: tuple[Offer, ...]
    pods: tuple[PodTemplate, ...]
    nodes: int | None = None
    """Number of nodes (--nodes); None if unknown."""

    def select(self, *kinds: str) -> tuple[Document, ...]:
        """Return the documents of these kinds."""
        return tuple(doc for kind in kinds for doc in self.kinds.get(kind, ()))

    def find_networks(self, pod: PodTemplate) -> list[Network]:
        """Return the distinct networks in the input that the pod requests."""
        names = dict.fromkeys((request.namespace or pod.namespace, request.name) for request in pod.networks)
        return [self.networks_by_name[name] for name in names if name in self.networks_by_name]


def index_documents(documents: list[Document], nodes: int | None = None) -> Corpus:
    """Index the documents by kind, and collect the networks, resources and pods they define."""
    kinds: dict[str, list[Document]] = {}
    for doc in documents:
        kinds.setdefault(doc.kind, []).append(doc)
    networks = tuple(network for doc in documents for network in find_networks(doc))
    return Corpus(
        tuple(documents),
        {kind: tuple(docs) for kind, docs in kinds.items()},
        networks,
        {(network.namespace, network.name): network for network in reversed(networks)},
        tuple(offer for doc in documents for offer in find_offers(doc)),
        tuple(pod for doc in documents for pod in find_pods(doc)),
        nodes,
    )
