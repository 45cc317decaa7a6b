"""Facts on the values of other projects' charts: why a stack writes a value, and where helm puts it."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a value shows: an object that exists where it is true, or a part of an object that holds it."""

    object: str
    """Kind and name, such as Deployment/network-operator."""
    env: str | None = None
    """Environment variable of one of the containers."""
    file: str | None = None
    """File of a ConfigMap, in YAML or JSON."""
    field: str | None = None
    """Path in the object, or in the file, such as spec.disableDrain."""

    def __str__(self) -> str:
        """Return the place for people, in Markdown."""
        parts = [f"`{self.object}`"]
        parts += [f"environment `{self.env}`"] if self.env else []
        parts += [f"file `{self.file}`"] if self.file else []
        parts += [f"`{self.field}`"] if self.field else []
        return ", ".join(parts) if len(parts) > 1 else f"{parts[0]} exists"


class ChartValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that stacks write."""

    component: str
    value: str
    """Path of the value, such as ipam.enableIPv4."""
    default: Any
    """The chart's own value."""
    why: str
    shows: Place


@cache
def load_chart_values() -> tuple[ChartValue, ...]:
    """Return all values in the order of the charts."""
    document = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), yaml.CSafeLoader)
    return msgspec.convert(document, tuple[ChartValue, ...])


def list_paths(component: str) -> frozenset[str]:
    """Return the paths of a chart's values."""
    return frozenset(fact.value for fact in load_chart_values() if fact.component == component)
