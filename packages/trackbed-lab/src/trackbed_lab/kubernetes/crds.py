"""CustomResourceDefinitions: read from a folder and loaded into an API server."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed_lab.kubernetes.blocking import BlockingClient

API = "apiextensions.k8s.io/v1"
ESTABLISHED_SECONDS = 180.0


class CrdError(Exception):
    """A folder of CRDs cannot be used; the message names the file."""


def load_crds(client: BlockingClient, folder: Path) -> int:
    """Load every CRD below `folder` and wait until all are served; return how many.

    Raises:
        CrdError, KubeError, OSError: a file cannot be read, or the server refuses a CRD.
    """
    return install_crds(client, read_definitions(folder))


def install_crds(client: BlockingClient, definitions: Sequence[Object]) -> int:
    """Create CRDs and wait until all are served; return how many. Raises KubeError."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda definition: _create_crd(client, definition), definitions))
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    for definition in definitions:
        _wait_until_served(client, definition, deadline)
    return len(definitions)


def read_definitions(folder: Path) -> list[Object]:
    """Return the CRDs in the YAML files below a folder.

    Raises:
        CrdError: a file cannot be parsed, or there is no CRD.
    """
    paths = sorted(path for path in folder.rglob("*.y*ml") if path.is_file())
    definitions = [definition for path in paths for definition in _iter_definitions(path)]
    if not definitions:
        raise CrdError(f"{folder} holds no CustomResourceDefinition")
    return definitions


def _iter_definitions(path: Path) -> Iterator[Object]:
    for document in _iter_documents(path):
        if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
            if document.get("apiVersion") != API or not _get_crd_name(document):
                raise CrdError(f"{path}: a CustomResourceDefinition needs apiVersion {API} and metadata.name")
            yield document


def _get_crd_name(body: Object) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _iter_documents(path: Path) -> Iterator[Any]:
    try:
        yield from yaml.load_all(path.read_bytes(), yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        why = " ".join(str(error).split())
        raise CrdError(f"{path} is no YAML ({why}); a chart's templates must be rendered first") from error


def _create_crd(client: BlockingClient, definition: Object) -> None:
    """Create a CRD unless it exists. Some are too large for the annotation of client-side apply."""
    try:
        client.create(definition, validation="Ignore")
    except ApiRefusedError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def _wait_until_served(client: BlockingClient, definition: Object, deadline: float) -> None:
    """Wait for condition Established, and for the kind in the server's discovery, which follows later."""
    name = definition["metadata"]["name"]
    while not (_is_established(client.get(API, "CustomResourceDefinition", name)) and _is_served(client, definition)):
        if time.monotonic() > deadline:
            raise KubeError(f"CustomResourceDefinition {name} is not served after {ESTABLISHED_SECONDS:.0f} s")
        time.sleep(0.05)


def _is_served(client: BlockingClient, definition: Object) -> bool:
    spec = definition["spec"]
    try:
        for version in spec["versions"]:
            if version.get("served"):
                client.run(client.dynamic.get_resource(f"{spec['group']}/{version['name']}", spec["names"]["kind"]))
    except UnknownKindError:
        return False
    return True


def _is_established(body: Object) -> bool:
    conditions = body.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
