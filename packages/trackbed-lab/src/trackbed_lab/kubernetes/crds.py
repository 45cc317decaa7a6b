"""CustomResourceDefinitions of a folder, loaded into a server until each is served."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.response import Object
from trackbed_lab.kubernetes.blocking import BlockingClient

API = "apiextensions.k8s.io/v1"
ESTABLISHED_SECONDS = 60.0


class CrdError(Exception):
    """A folder of CRDs cannot be used; the message names the file."""


def load(client: BlockingClient, folder: Path) -> int:
    """Load every CRD below `folder` and wait until all are served; how many. Raises CrdError, KubeError, OSError."""
    return install(client, definitions(folder))


def install(client: BlockingClient, found: Sequence[Object]) -> int:
    """Load CRDs and wait until all are served; how many. Raises KubeError."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: _create(client, one), found))
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    for one in found:
        _await(client, one["metadata"]["name"], deadline)
    return len(found)


def definitions(folder: Path) -> list[Object]:
    """The CRDs in the YAML files below a folder. Raises CrdError where a file cannot be read or there is no CRD."""
    paths = sorted(path for path in folder.rglob("*.y*ml") if path.is_file())
    found = [one for path in paths for one in _definitions(path)]
    if not found:
        raise CrdError(f"{folder} holds no CustomResourceDefinition")
    return found


def _definitions(path: Path) -> Iterator[Object]:
    for one in _documents(path):
        if isinstance(one, dict) and one.get("kind") == "CustomResourceDefinition":
            if one.get("apiVersion") != API or not _name(one):
                raise CrdError(f"{path}: a CustomResourceDefinition needs apiVersion {API} and metadata.name")
            yield one


def _name(one: Object) -> str:
    metadata = one.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _documents(path: Path) -> Iterator[Any]:
    try:
        yield from yaml.load_all(path.read_bytes(), yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        why = " ".join(str(error).split())
        raise CrdError(f"{path} is no YAML ({why}); a chart's templates must be rendered first") from error


def _create(client: BlockingClient, one: Object) -> None:
    """Create one; that it is there already is fine. Some are too large for client-side apply, none for this."""
    try:
        client.create(one, validation="Ignore")
    except ApiRefusedError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def _await(client: BlockingClient, name: str, deadline: float) -> None:
    while not _established(client.get(API, "CustomResourceDefinition", name)):
        if time.monotonic() > deadline:
            raise KubeError(f"CustomResourceDefinition {name} is not Established after {ESTABLISHED_SECONDS:.0f} s")
        time.sleep(0.05)


def _established(one: dict[str, Any]) -> bool:
    conditions = one.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
