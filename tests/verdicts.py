"""The verdict of a real API server on an object, beside that of lint's schemas, and mistakes to try them with."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed_lab.kubernetes.blocking import BlockingClient

from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.lint.document import Document
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.schemas.check import check_schema
from trackbed.lint.schemas.crds import Schemas
from trackbed.lint.schemas.shipped import is_built_in
from trackbed.lint.schemas.webhooks import get_defaulted_fields

_SCHEMA_REASON = re.compile(r"in body|Required value|Unsupported value|Duplicate value|Too (?:long|many|few)")
"""Reasons that the schema of a CRD gives; those of Kubernetes' own kinds come from its validation in code."""
_MISSING = re.compile(r"(\w[\w.\[\]]*): Required value")
_BAD_REQUEST, _CONFLICT = 400, 409


class Verdict(NamedTuple):
    """What the API server and lint's schemas say of an object."""

    refusal: str
    """Message of the API server; empty if it accepts the object."""
    is_structural: bool
    """Whether the API server refuses the object for its structure, as a schema would."""
    rules: tuple[str, ...]
    """Rules that the object breaks by its schema; `partial-object` alone is no refusal."""

    @property
    def agreement(self) -> str:
        """How the two agree, or which refuses alone."""
        is_refused = any(rule != "partial-object" for rule in self.rules)
        if is_refused:
            return "both refuse" if self.refusal else "only lint refuses"
        if not self.refusal:
            return "both accept"
        return "only the API server refuses" if self.is_structural else "refused for what no schema holds"


def judge(client: BlockingClient, document: Document, schemas: Schemas) -> Verdict:
    """Ask the API server and lint's schemas. Raises KubeError for a kind that is not served, or without an answer."""
    refusal, is_structural = _ask(client, document.tree.value)
    return Verdict(refusal, is_structural, tuple(breach.rule for breach in check_schema(document, schemas)))


def _ask(client: BlockingClient, body: Object) -> tuple[str, bool]:
    """Return why the API server refuses an object, empty if it does not, and whether for its structure.

    The object is tried in the namespace `default`, and gets a name if it has none.
    """
    body = json.loads(json.dumps(body, default=str))
    metadata = body.get("metadata")
    if metadata is None or isinstance(metadata, dict):
        metadata = body["metadata"] = {"name": "unnamed"} | (metadata or {})
        metadata.pop("namespace", None)
    try:
        client.create(body, dry_run=True)
    except ApiRefusedError as error:
        if error.status == _CONFLICT:  # looked for after the validation
            return "", False
        return f"{error.status} {error.message}", _is_structural(body, error)
    return "", False


def _is_structural(body: Object, error: ApiRefusedError) -> bool:
    """Return whether an object is refused for its structure, and not only for fields that a webhook fills in."""
    group = str(body["apiVersion"]).rpartition("/")[0]
    if error.status == _BAD_REQUEST or is_built_in(group):
        return error.status == _BAD_REQUEST
    reasons = _SCHEMA_REASON.findall(error.message)
    missing = [re.sub(r"\[\d+\]", "", field) for field in _MISSING.findall(error.message)]
    is_defaulted = len(missing) == len(reasons) and set(missing) <= get_defaulted_fields(group, str(body["kind"]))
    return bool(reasons) and not is_defaulted


_OTHER_TYPES: dict[type, Any] = {str: ["x"], int: "x", float: "x", dict: "x", list: {"a": 1}}


def spoil(document: Document, generator: random.Random) -> Document | None:
    """Return a document with one field renamed, removed, emptied, or of another type; None for one without fields."""
    body = copy.deepcopy(document.tree.value)
    places = list(_iter_places(body, is_top=True))
    if not places:
        return None
    holder, key = generator.choice(places)
    value = holder[key]
    change = generator.choice(("rename", "remove", "null", "fraction", "type"))
    if change == "rename" and isinstance(holder, dict):
        holder[f"{key}X"] = holder.pop(key)
    elif change == "remove":
        del holder[key]
    else:
        holder[key] = {"null": None, "fraction": 1.5}.get(change, _OTHER_TYPES.get(type(value), 7))
    return next(iter(parse_manifests(json.dumps(body, default=str).encode(), document.tree.source.file)[0]), None)


def _iter_places(value: Any, *, is_top: bool = False) -> Iterator[tuple[Any, Any]]:
    """Yield every mapping or list with each of its keys, except those that every object has."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            if not (is_top and key in {"apiVersion", "kind", "metadata", "status"}):
                yield value, key
                yield from _iter_places(value[key])
