"""YAML values as Kubernetes reads them: scalars typed as by sigs.k8s.io/yaml, merge keys resolved.

sigs.k8s.io/yaml knows the booleans of YAML 1.1 (`on` is true), but not its base-60 numbers and dates. Of duplicate
keys the last is used.
"""

import re
from contextlib import suppress
from typing import Any

import yaml

from trackbed.fabric.model.source import NULLS, YamlDocument, read_yaml

_TRUE = {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
_FALSE = {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[1-9][0-9_]*|0)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_MOST_DIGITS = 100
"""A longer number is text: no field takes it, and Python neither reads nor prints more than 4,300 digits."""
_INTEGERS = range(-(1 << 63), 1 << 64)
"""What sigs.k8s.io/yaml reads as an integer. Beyond, decimal digits are a float, and others, as of a hash, text."""
_LEADING_ZERO = re.compile(r"([-+]?)0o?([0-7_]+)")


def parse_values(text: str) -> list[Any]:
    """Return the values of the documents in a YAML text that are not empty. Raises SpecError as read_yaml does."""
    return [convert_document(document) for document in read_yaml(text.encode(errors="replace"), "")]


def convert_document(document: YamlDocument) -> Any:  # noqa: ANN401 - a YAML value has any type
    """Return the values of a document that was read already."""
    return _convert_node(document.node, {})


def _convert_node(node: yaml.Node, values: dict[int, Any]) -> Any:  # noqa: ANN401 - a YAML value has any type
    """Return the value of a YAML node. All aliases of a node share its value."""
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style else parse_scalar(node.value)
    if id(node) not in values:
        if isinstance(node, yaml.SequenceNode):
            values[id(node)] = [_convert_node(item, values) for item in node.value]
        else:
            values[id(node)] = _convert_mapping(node, values)
    return values[id(node)]


def _convert_mapping(node: yaml.Node, values: dict[int, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    mapping: dict[str, Any] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue  # reported by fabric.model.source
        if key.value == "<<" and not key.style:
            for base in _list_merged_mappings(_convert_node(item, values)):
                merged = {**base, **merged}
        else:
            mapping[key.value] = _convert_node(item, values)
    return {**merged, **mapping} if merged else mapping


def _list_merged_mappings(value: object) -> list[dict[str, Any]]:
    return [base for base in (value if isinstance(value, list) else [value]) if isinstance(base, dict)]


def parse_scalar(text: str) -> bool | int | float | str | None:
    """Return the value of a plain (unquoted) scalar."""
    if text in NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] in "+-.0123456789":
        return _parse_number(text)
    return text


def _parse_number(text: str) -> int | float | str:
    if len(text) > _MOST_DIGITS:
        return text
    plain = text.replace("_", "")
    if _INT.fullmatch(text):
        octal = _LEADING_ZERO.fullmatch(plain)
        with suppress(ValueError):
            number = int(f"{octal[1]}0o{octal[2]}" if octal else plain, 0)
            if number in _INTEGERS:
                return number
    if _FLOAT.fullmatch(plain):
        return float(plain)
    infinity = _INFINITY.fullmatch(text)
    return float(f"{infinity[1]}inf") if infinity else text
