"""A Fabric and its lock as YAML for people: short mappings on one line, long ones opened up."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from trackbed.fabric.model.fabric import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.fabric.importers.imported import Imported

WIDTH = 120
"""Longest line; only a list of ports may be longer."""

_PLAIN = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*(:[-A-Za-z0-9_./]+)*")
"""Text that needs no quotes anywhere in YAML ..."""
_AMBIGUOUS = re.compile(r"[-+0-9_:.]+:[-+0-9_:.]+|null|true|false|yes|no|on|off|y|n", re.IGNORECASE)
"""... unless another reader takes it for a number of base 60, a boolean or nothing."""
_HOSTS = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.,\[\]]*")
"""Host ranges: plain at the end of a line, though not inside braces."""


def fabric_text(imported: Imported) -> str:
    """The Fabric document, headed by what was found."""
    findings = sum(finding.severity in {"error", "warning"} for finding in imported.findings)
    comments = [f"# Imported from {imported.summary}."]
    if findings:
        comments.append(f"# {findings} findings were reported: look into them before this is applied.")
    return "\n".join([*comments, *_block(imported.document, 0)]) + "\n"


def lock_text(imported: Imported) -> str:
    """The lock document."""
    head = f"apiVersion: {API_VERSION}\nkind: FabricLock\nfabric: {imported.fabric.metadata.name}\nnodes:"
    if not imported.lock:
        return head + " {}\n"
    return "\n".join([head, *(f"  {_scalar(host)}: {slot}" for host, slot in imported.lock.items())]) + "\n"


def _block(mapping: Mapping[str, Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key, value in mapping.items():
        if isinstance(value, str) and _HOSTS.fullmatch(value) and not _AMBIGUOUS.fullmatch(value):
            yield f"{pad}{_scalar(key)}: {value}"
        elif not _is_long(value, len(pad) + len(key) + 2):
            yield f"{pad}{_scalar(key)}: {_flow(value)}"
        elif isinstance(value, dict):
            yield f"{pad}{_scalar(key)}:"
            yield from _block(value, indent + 2)
        else:
            yield f"{pad}{_scalar(key)}:"
            yield from _items(value, indent + 2)


def _items(values: list[Any], indent: int) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict) and ("hosts" in value or _is_long(value, indent)):
            first, *rest = _block(value, indent + 2)
            yield f"{' ' * indent}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{' ' * indent}- {_flow(value)}"


def _is_long(value: Any, before: int) -> bool:  # noqa: ANN401 - YAML holds anything
    """Whether a value is opened up: lists of mappings, mappings of collections, and what does not fit the line."""
    if isinstance(value, list):
        return any(isinstance(item, dict) for item in value)
    if not isinstance(value, dict):
        return False
    return any(isinstance(inner, dict | list) for inner in value.values()) or before + len(_flow(value)) > WIDTH


def _flow(value: Any) -> str:  # noqa: ANN401 - YAML holds anything
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: str | None) -> str:
    if value is None:
        return "null"
    plain = _PLAIN.fullmatch(value) and not _AMBIGUOUS.fullmatch(value)
    return value if plain else json.dumps(value, ensure_ascii=False)
