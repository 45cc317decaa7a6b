"""CustomResourceDefinitions of a folder, loaded into a server until each is served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from trackbed.kube.client import Client, Object
from trackbed.kube.errors import KubeError, RefusedError

API = "apiextensions.k8s.io/v1"
ESTABLISHED_SECONDS = 60.0
_CONFLICT = 409


def load(client: Client, folder: Path) -> int:
    """Load every CRD below `folder` and wait until all are served; how many. Raises KubeError, OSError."""
    found = list(definitions(folder))
    if not found:
        raise KubeError(f"{folder} holds no CustomResourceDefinition")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: _create(client, one), found))
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    for one in found:
        _await(client, one["metadata"]["name"], deadline)
    return len(found)


def definitions(folder: Path) -> Iterator[Object]:
    """The CRDs in the YAML files below a folder."""
    for path in sorted(folder.rglob("*.yaml")):
        for document in yaml.load_all(path.read_bytes(), yaml.CSafeLoader):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                yield document


def _create(client: Client, one: Object) -> None:
    """Create one; that it is there already is fine. Some are too large for client-side apply, none for this."""
    try:
        client.create(one, validation="Ignore")
    except RefusedError as error:
        if error.status != _CONFLICT:
            raise


def _await(client: Client, name: str, deadline: float) -> None:
    while not _established(client.get(API, "CustomResourceDefinition", name)):
        if time.monotonic() > deadline:
            raise KubeError(f"CustomResourceDefinition {name} is not Established after {ESTABLISHED_SECONDS:.0f} s")
        time.sleep(0.05)


def _established(one: dict[str, Any]) -> bool:
    conditions = one.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
