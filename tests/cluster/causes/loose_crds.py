"""CRDs without a schema, for as long as a test needs them: on the server of all tests others want the real ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient

from trackbed.cluster.api.response import Object

_SECONDS = 300.0


@contextmanager
def loose_crds(client: BlockingClient, definitions: Sequence[Object]) -> Iterator[None]:
    """Install CRDs for the block, except those that are there."""
    absent = [body for body in definitions if not _is_there(client, body)]
    crds.install_crds(client, absent)
    try:
        yield
    finally:
        for body in absent:
            client.delete(body)
        deadline = time.monotonic() + _SECONDS
        while any(_is_there(client, body) for body in absent):
            assert time.monotonic() < deadline, "a CRD does not go"


def _is_there(client: BlockingClient, body: Object) -> bool:
    return client.find(crds.API, "CustomResourceDefinition", body["metadata"]["name"]) is not None
