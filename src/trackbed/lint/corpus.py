"""All documents of one run, and what they say together: the one value that every rule looks at."""

from __future__ import annotations

from dataclasses import dataclass

from trackbed.lint.document import Document
from trackbed.lint.networks import Network, networks
from trackbed.lint.offers import Offer, offers
from trackbed.lint.pods import Pod, pods


@dataclass(frozen=True, slots=True)
class Corpus:
    """The input, indexed; the order of files and objects does not matter to any rule."""

    documents: tuple[Document, ...]
    kinds: dict[str, tuple[Document, ...]]
    networks: tuple[Network, ...]
    places: dict[tuple[str, str], Network]
    """Networks by namespace and name."""
    offers: tuple[Offer, ...]
    pods: tuple[Pod, ...]
    nodes: int | None = None
    """Nodes of the cluster, where the user said so."""

    def of(self, *kinds: str) -> tuple[Document, ...]:
        """The documents of these kinds."""
        return tuple(doc for kind in kinds for doc in self.kinds.get(kind, ()))

    def attached(self, pod: Pod) -> list[Network]:
        """The networks of the input that a pod names."""
        wanted = dict.fromkeys((one.namespace or pod.namespace, one.name) for one in pod.networks)
        return [self.places[place] for place in wanted if place in self.places]


def corpus(documents: list[Document], nodes: int | None = None) -> Corpus:
    """Index documents."""
    kinds: dict[str, list[Document]] = {}
    for doc in documents:
        kinds.setdefault(doc.kind, []).append(doc)
    found = tuple(network for doc in documents for network in networks(doc))
    return Corpus(
        tuple(documents),
        {kind: tuple(docs) for kind, docs in kinds.items()},
        found,
        {(network.namespace, network.name): network for network in reversed(found)},
        tuple(offer for doc in documents for offer in offers(doc)),
        tuple(pod for doc in documents for pod in pods(doc)),
        nodes,
    )
