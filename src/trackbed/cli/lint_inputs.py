"""What `trackbed lint` reads: manifests, objects of a cluster, CRDs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.options import read_input_or_exit, refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trackbed.lint.document import Document
    from trackbed.lint.finding import Breach
    from trackbed.lint.schemas.crds import Schemas

_ENDINGS = {".yaml", ".yml", ".json"}


def read_texts(paths: tuple[str, ...]) -> Iterable[tuple[str, bytes]]:
    """Yield the name and content of each manifest file of the paths; - is standard input."""
    from trackbed.fabric.model.source import MAX_BYTES

    for path in paths:
        if path == "-":
            raw = read_input_or_exit(path, MAX_BYTES)
            if not raw.strip():
                refuse("standard input is empty; did the program before the pipe fail?")
            yield "<stdin>", raw
        else:
            yield from ((str(file), read_input_or_exit(str(file), MAX_BYTES)) for file in _list_manifests(Path(path)))


def _list_manifests(path: Path) -> list[Path]:
    """Return a file itself, or the manifests in a folder at any depth, without hidden ones."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in _ENDINGS and file.is_file())
    kept = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not kept:
        refuse(f"{path} holds no file that ends in .yaml, .yml or .json")
    return kept


def read_documents(texts: dict[str, bytes], paths: Collection[str]) -> tuple[list[Document], list[Breach], bool]:
    """Return the documents, the breaches found while reading, and whether a file could not be read.

    Folders hold all kinds of files, so one that `paths` does not name and that shows no object is a note.
    """
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.manifests import note_other_file, parse_manifests

    documents: list[Document] = []
    breaches: list[Breach] = []
    failed = False
    named = {"<stdin>", *(str(Path(path)) for path in paths)}
    for file, raw in texts.items():
        try:
            objects, early = parse_manifests(raw, file)
        except SpecError as error:
            note = None if file in named else note_other_file(raw, file, error)
            if note:
                breaches.append(note)
                continue
            failed = True
            for problem in error.problems:
                click.echo(problem, err=True)
            continue
        documents += objects
        breaches += early
    return documents, breaches, failed


def read_cluster(kubeconfig: str | None) -> list[Document]:
    """Return the objects of a cluster that lint has rules for."""
    from trackbed.cli.cluster_session import ClusterSession
    from trackbed.cluster.api.errors import KubeError, UnknownKindError
    from trackbed.lint.live import LIVE_KINDS, to_documents

    objects: dict[str, list[dict[str, Any]]] = {}
    try:
        with ClusterSession(kubeconfig) as cluster:
            for api_version, kind in LIVE_KINDS:
                with suppress(UnknownKindError):
                    objects[kind] = objects.get(kind) or cluster.collect(cluster.client.iter_objects(api_version, kind))
    except KubeError as error:
        refuse(error)
    return to_documents(body for bodies in objects.values() for body in bodies)


def read_crds(kubeconfig: str | None) -> list[tuple[str, bytes]]:
    """Return the CRDs of a cluster, each with its name."""
    import json

    from trackbed.cli.cluster_session import ClusterSession
    from trackbed.cluster.api.errors import KubeError

    try:
        with ClusterSession(kubeconfig) as session:
            crds = session.client.iter_objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            return [
                (str(body["metadata"]["name"]), json.dumps({"kind": "CustomResourceDefinition", **body}).encode())
                for body in session.collect(crds)
            ]
    except KubeError as error:
        refuse(error)


def load_schemas(crds: str | None, served_crds: Iterable[tuple[str, bytes]] = ()) -> Schemas:
    """Return the shipped schemas with the CRDs of a folder and of a cluster."""
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.schemas.crds import index_crds

    if crds and not Path(crds).is_dir():
        refuse(f"--crds {crds} is not a folder; name one that holds CustomResourceDefinitions")
    try:
        return index_crds([*served_crds, *(read_texts((crds,)) if crds else ())])
    except SpecError as error:
        refuse(error)
