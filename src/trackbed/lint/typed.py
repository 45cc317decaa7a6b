"""YAML nodes to the values Kubernetes sees: scalars typed as sigs.k8s.io/yaml does, merge keys followed.

That reader keeps YAML 1.1 booleans (`on` is true) but reads neither base-60 numbers nor dates.
`fabric.model.source.read` has bounded size, depth and aliases before anything here runs.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from trackbed.fabric.model.source import NULLS, is_null

_TRUE = {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
_FALSE = {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[1-9][0-9_]*|0)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_LEADING_ZERO = re.compile(r"([-+]?)0o?([0-7_]+)")


def values(text: str) -> list[Any]:
    """Every document of a YAML text that is not empty, typed; the text must have passed `fabric.model.source.read`."""
    nodes = yaml.compose_all(text, Loader=yaml.CBaseLoader)
    return [_value(node, {}) for node in nodes if not is_null(node)]


def _value(node: yaml.Node, seen: dict[int, Any]) -> Any:  # noqa: ANN401 - YAML holds anything
    """The value; what several aliases name is made once and shared."""
    if isinstance(node, yaml.ScalarNode):
        return node.value if node.style else scalar(node.value)
    if id(node) not in seen:
        if isinstance(node, yaml.SequenceNode):
            seen[id(node)] = [_value(item, seen) for item in node.value]
        else:
            seen[id(node)] = _mapping(node, seen)
    return seen[id(node)]


def _mapping(node: yaml.Node, seen: dict[int, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue  # fabric.model.source reports it
        if key.value == "<<" and not key.style:
            for base in _bases(_value(item, seen)):
                merged = {**base, **merged}
        else:
            own.setdefault(key.value, _value(item, seen))
    return {**merged, **own} if merged else own


def _bases(value: object) -> list[dict[str, Any]]:
    return [base for base in (value if isinstance(value, list) else [value]) if isinstance(base, dict)]


def scalar(text: str) -> bool | int | float | str | None:
    """What a plain scalar means."""
    if text in NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> int | float | str:
    if _INT.fullmatch(text):
        octal = _LEADING_ZERO.fullmatch(text)
        digits = f"{octal[1]}0o{octal[2].strip('_')}" if octal else text
        try:
            return int(digits.replace("_", ""), 0)
        except ValueError:
            return text
    if _FLOAT.fullmatch(text):
        return float(text)
    infinite = _INFINITY.fullmatch(text)
    return (-math.inf if infinite[1] == "-" else math.inf) if infinite else text
