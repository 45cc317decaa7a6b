"""All objects of a file: which are jobs, and rails on those that are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trackbed.cluster.jobs.kinds import KINDS, kind_of, other_version
from trackbed.cluster.jobs.kinds.kind import patch
from trackbed.cluster.jobs.note import Note
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.jobs.template import Mapping, NotAJobError, items, plain


class Patched(NamedTuple):
    """One job that was given rails, and what was added or kept."""

    title: str
    notes: list[Note]


def put_rails(documents: Sequence[Any], wanted: PodRequirements) -> list[Patched]:
    """Put rails on every job among the documents, in place; what is no job stays as it is.

    NotAJobError if there is no job, or one has not the shape of its kind, or a version that is not known.
    """
    objects = [one for document in documents for one in _objects(document)]
    found = [_patched(one, wanted, objects) for one in objects if _is_job(one)]
    if not found:
        raise NotAJobError(f"no job that can have rails; there are {supported()}", "")
    return found


def compare(documents: Sequence[Any], wanted: PodRequirements) -> list[Patched]:
    """How the jobs differ from what the plan gives; nothing is changed."""
    return put_rails(plain(list(documents)), wanted)


def supported() -> str:
    """The kinds and versions that are known."""
    return ", ".join(f"{kind.kind} ({' or '.join(kind.api_versions)})" for kind in KINDS.values())


def _objects(document: object) -> list[Mapping]:
    """A document, or the items of a List."""
    if not isinstance(document, dict):
        return []
    if document.get("kind") == "List" and document.get("apiVersion") == "v1":
        return items(document, "items")
    return [document]


def _is_job(one: Mapping) -> bool:
    other = other_version(one)
    if other is not None:
        told = f"{other.kind} of {one.get('apiVersion')} is not known; there is {' or '.join(other.api_versions)}"
        raise NotAJobError(told, "apiVersion")
    return kind_of(one) is not None


def _patched(one: Mapping, wanted: PodRequirements, beside: Sequence[Mapping]) -> Patched:
    kind = kind_of(one)
    metadata = one.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    title = f"{one.get('kind')} {name or '(without a name)'}"
    try:
        return Patched(title, patch(kind, one, wanted, beside) if kind else [])
    except NotAJobError as error:
        raise NotAJobError(f"{title}: {error}", "") from error
