"""Validation of a document against its CRD; messages suggest the right name or level of a field."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint import kustomize
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.schemas.convert import Schema
from trackbed.lint.schemas.crds import KindVersion, Schemas
from trackbed.lint.schemas.formats import describe_pattern
from trackbed.lint.schemas.partial import is_partial
from trackbed.lint.schemas.removed import find_removal
from trackbed.lint.schemas.shipped import is_built_in
from trackbed.lint.schemas.webhooks import is_set_by_webhook
from trackbed.lint.templates import has_expressions
from trackbed.lint.tree import Tree, enumerate_mappings

_VARIABLE = re.compile(r"\$\{?\w+\}?")
_READ_BY_LINT = {
    ("trackbed.dev", "Fabric"),
    ("trackbed.dev", "FabricLock"),
    *((kustomize.GROUP, kind) for kind in kustomize.KINDS),
}
"""Objects that are read here, and that no API server has."""
_LOCAL_CONFIG = "config.kubernetes.io/local-config"
"""Annotation of objects for kpt's and Kustomize's functions, which are not sent to an API server."""
_OTHER_VERSIONS = {("kubeflow.org", "MPIJob", "v1")}
"""Versions that another program serves than the one whose CRD is known: here Kubeflow's Training Operator."""
_KUSTOMIZE_PLUGINS = ("Transformer", "Generator")
"""Ends of the kinds that Kustomize reads itself, such as PatchTransformer; Kubernetes has none of these."""
_OF_OPENSHIFT = {("", kind) for kind in ("Template", "DeploymentConfig", "BuildConfig", "ImageStream", "Route")}
"""Kinds that OpenShift still reads in the core group, where they began."""
_CORE_VERSION = "v1"
"""The only version of the core group: a file of another one, such as OpenShift's AgentConfig, is for a program."""
_SYNONYMS = {"to": "dst", "destination": "dst", "via": "gw", "gateway": "gw", "nextHop": "gw"}
"""Fields by their names in other formats (netplan, NetworkManager), which are too different for a suggestion."""
_GONE_GROUP = "extensions"
"""The group of Kubernetes of which no release serves a kind any more; its kinds moved to other groups."""
_MAX_CANDIDATES = 300
"""Maximum number of names that are compared for a suggestion; each comparison takes some 20 microseconds."""
_MAX_VALUE_CHARACTERS = 60
_MAX_BREACHES = 100
"""Maximum number of breaches of one document; a document of another format may have thousands."""


KindNames = frozenset[tuple[str, str, str]]
"""Groups, kinds and versions."""


def list_defined_versions(crds: Iterable[Document]) -> KindNames:
    """Return what CRDs among the manifests define, also those of v1beta1, which old operators bring."""
    return frozenset(
        (crd.get_text("spec", "group"), crd.get_text("spec", "names", "kind"), str(version))
        for crd in crds
        for version in (
            crd.get("spec", "version"),
            *(version.get("name") for _, version in enumerate_mappings(crd.get("spec", "versions"))),
        )
    )


def check_schema(doc: Document, schemas: Schemas, defined: KindNames = frozenset()) -> Iterator[Breach]:
    """Yield the breaches for which an API server would refuse the document.

    `defined` are versions that CRDs among the manifests define: where no schema has one of them, it is not refused.
    """
    is_local = doc.get("metadata", "annotations", _LOCAL_CONFIG) in (True, "true")
    if is_local or doc.tree.source.has_several_objects or (doc.group, doc.kind) in _READ_BY_LINT:
        return
    versions = schemas.find_versions(doc.group, doc.kind)
    version = doc.api_version.rpartition("/")[2]
    if version in versions:
        yield from islice(_iter_schema_breaches(doc, versions[version]), _MAX_BREACHES)
    elif (doc.group, doc.kind, version) in defined:
        message = f"a CRD of the input defines {doc.kind} of {doc.api_version}; its fields were not checked"
        yield Breach("no-schema", doc.tree, ("kind",), message)
    elif versions and (doc.group, doc.kind, version) not in _OTHER_VERSIONS:
        yield _refuse_version(doc, version, versions)
    elif is_built_in(doc.group) and not _is_of_another_program(doc):
        hint = suggest_name(doc.kind, schemas.list_kinds(doc.group))
        yield _refuse_kind(doc, f"{doc.group or 'v1'} has no kind {doc.kind!r}", hint)
    elif doc.group == _GONE_GROUP:
        yield _refuse_kind(doc, f"{doc.group} has no kind {doc.kind!r} any more", "")
    else:
        hint = suggest_name(doc.kind, schemas.list_kinds(doc.group)) if doc.group else ""
        message = (
            f"no schema of {doc.kind} in {doc.group or doc.api_version} is known, so its fields were not checked{hint}"
        )
        yield Breach("no-schema", doc.tree, ("kind",), message)


def _is_of_another_program(doc: Document) -> bool:
    """Return whether a program other than an API server reads a kind of one of Kubernetes' groups."""
    if not doc.group and (doc.api_version != _CORE_VERSION or doc.get("metadata") is None):
        return True  # an API server wants both
    return (doc.group, doc.kind) in _OF_OPENSHIFT or doc.kind.endswith(_KUSTOMIZE_PLUGINS)


def _refuse_version(doc: Document, version: str, versions: Mapping[str, KindVersion]) -> Breach:
    """Return the breach of an unknown version: a warning for CRDs of other projects, of which releases differ."""
    known = " or ".join("/".join(filter(None, (doc.group, name))) for name in versions)
    message = f"{doc.kind} has no version {version!r}"
    if any(kind.is_shipped for kind in versions.values()) and not is_built_in(doc.group):
        message = f"{message} in the release that lint knows; write {known}, or give the CRDs of yours"
        return Breach("unknown-kind", doc.tree, ("apiVersion",), message, severity="warning")
    return _refuse_kind(doc, message, f"; write {known}", "apiVersion")


def _refuse_kind(doc: Document, message: str, hint: str, key: str = "kind") -> Breach:
    """Return the breach of a kind that no API server has, or none any more."""
    removal = find_removal(doc.api_version, doc.kind)
    reason = f": Kubernetes 1.{removal} removed it" if removal else ""
    return Breach("unknown-kind", doc.tree, (key,), f"{message}{reason}{hint}")


def _iter_schema_breaches(doc: Document, kind_version: KindVersion) -> Iterator[Breach]:
    errors = [
        error
        for error in islice(kind_version.validator.iter_errors(doc.tree.value), _MAX_BREACHES)
        if not is_set_by_webhook(kind_version, tuple(error.instance_path), error.kind)
    ]
    lacking = [tuple(error.instance_path) for error in errors if _get_name(error) == "Required"]
    is_patch = (
        is_partial(doc, ((path, _get_subschema(kind_version.schema, path)) for path in lacking)) if lacking else False
    )
    if is_patch:
        message = "this looks like a patch or a template, so its required fields were not checked"
        yield Breach("partial-object", doc.tree, ("kind",), message)
    mistyped = {tuple(error.instance_path) for error in errors if _get_name(error) == "Type"}
    for error in errors:
        path, name = tuple(error.instance_path), _get_name(error)
        if (path not in mistyped or name == "Type") and not (is_patch and name == "Required"):
            yield from _to_breaches(doc.tree, path, error.kind, error.message, kind_version.schema)


def _get_name(error: Any) -> str:  # noqa: ANN401 - an error of a library without types
    return type(error.kind).__name__


def _to_breaches(tree: Tree, path: Path, error_kind: Any, message: str, schema: Schema) -> Iterator[Breach]:  # noqa: ANN401 - a Rust enum
    name, details = type(error_kind).__name__, error_kind.as_dict()
    field = format_path(path) or "the document"
    value = tree.get(*path)
    if name == "AdditionalProperties":
        for unknown in details["unexpected"]:
            hint = _suggest_field(tree, path, unknown, schema)
            message = f"unknown field {format_path((*path, unknown))}{hint}"
            yield Breach("unknown-field", tree, (*path, unknown), message, key=True)
    elif name == "Required":
        yield Breach("missing-field", tree, path, f"{format_path((*path, details['property']))} is missing", key=True)
    elif name == "Type":
        yield Breach(
            "wrong-type",
            tree,
            path,
            f"{field} must be {_describe_types(_get_subschema(schema, path))}, not {_describe_value(value)}",
        )
    elif name == "Enum":
        options = [str(option) for option in details["options"] if option is not None]
        hint = suggest_name(str(value), options)
        yield Breach(
            "bad-choice", tree, path, f"{field} is {_shorten_value(value)}, it must be {' or '.join(options)}{hint}"
        )
    else:
        meaning = describe_pattern(details["pattern"]) if name == "Pattern" else None
        reason = f" is {_shorten_value(value)}, it must be {meaning}" if meaning else f": {message}"
        yield Breach("bad-value", tree, path, f"{field}{reason}")


def _suggest_field(tree: Tree, path: Path, unknown_field: str, schema: Schema) -> str:
    """Return a hint for an unknown field: the level at which it belongs, or a field of a similar name."""
    known = _get_subschema(schema, path).get("properties", {})
    if near := [name for name in known if name in (unknown_field[:-1], f"{unknown_field}s", f"{unknown_field}d")]:
        return f"; did you mean {near[0]!r}?"
    starts = dict.fromkeys((path[:1], path))  # below maps of any keys, the field's own level alone is reached
    places = [
        place
        for start in starts
        for place in _iter_field_paths(_get_subschema(schema, start), start, unknown_field)
        if _drop_indices(place) != _drop_indices((*path, unknown_field))
    ]
    nested = [place for place in places if _is_either_prefix(place[:-1], path) or _is_lifted(place[:-1], path)]
    if nested:
        best = min(
            nested, key=lambda place: (not _has_parent(tree, path, place), len(_drop_indices(place)), -len(place))
        )
        return f"; it belongs at {format_path(best)}"
    synonym = _SYNONYMS.get(unknown_field, "")
    return f"; did you mean {synonym!r}?" if synonym in known else suggest_name(unknown_field, known)


def _has_parent(tree: Tree, path: Path, place: Path) -> bool:
    """Return whether the key below which a field belongs is there; `place` has no indices, and `path` has them."""
    level, parent = _drop_indices(path), _drop_indices(place[:-1])
    below = (*path, *parent[len(level) :]) if parent[: len(level)] == level else place[:-1]
    above = tree.get(*below[:-1])
    return not below or (below[-1] in above if isinstance(above, dict) else tree.get(*below) is not None)


def _is_either_prefix(parent: Path, path: Path) -> bool:
    """Return whether one path is a prefix of the other, so that a field is only some levels too high or too low."""
    pairs = zip(_drop_indices(parent), _drop_indices(path), strict=False)
    return all(field == other for field, other in pairs)


def _is_lifted(parent: Path, path: Path) -> bool:
    """Return whether `parent` has the name of the last mapping of `path` further up: a pod's securityContext."""
    return path[-1:] == parent[-1:] and _is_either_prefix(parent[:-1], path)


def _drop_indices(path: Path) -> list[str]:
    return [part for part in path if isinstance(part, str)]


def _iter_field_paths(schema: Schema, path: Path, field_name: str, depth: int = 6) -> Iterator[Path]:
    if depth == 0:
        return
    for key, part in schema.get("properties", {}).items():
        if key == field_name:
            yield (*path, key)
        yield from _iter_field_paths(part, (*path, key), field_name, depth - 1)
    if isinstance(schema.get("items"), dict):
        yield from _iter_field_paths(schema["items"], path, field_name, depth - 1)


def _get_subschema(schema: Schema, path: Path) -> Schema:
    for part in path:
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        if inner is None and isinstance(part, str) and isinstance(schema.get("additionalProperties"), dict):
            inner = schema["additionalProperties"]
        if not isinstance(inner, dict):
            return {}
        schema = inner
    return schema


_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def _describe_types(schema: Schema) -> str:
    kinds = schema.get("type", [])
    listed = [_WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    options = [str(option) for option in schema.get("enum", []) if option is not None]
    return (" or ".join(listed) or "another type") + (f" ({' or '.join(options)})" if options else "")


def _describe_value(value: object) -> str:
    if isinstance(value, str) and (_VARIABLE.search(value) or has_expressions(value)):
        return f"the text {_shorten_value(value)}, which looks like a variable that was not substituted"
    if isinstance(value, str):
        return f"the text {_shorten_value(value)}"
    if isinstance(value, dict | list) or value is None:
        return "nothing" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    return _shorten_value(value)


def _shorten_value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else text[: _MAX_VALUE_CHARACTERS - 3] + "..."


def suggest_name(name: str, candidates: Any) -> str:  # noqa: ANN401 - any iterable of names
    """Return `; did you mean NAME?` for the most similar candidate, ignoring case; empty if none is similar."""
    by_lower = {str(candidate).lower(): str(candidate) for candidate in islice(candidates, _MAX_CANDIDATES)}
    matches = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[matches[0]]!r}?" if matches else ""


def format_path(path: Path) -> str:
    """Return a path as text, such as spec.routes[0].dst."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text
