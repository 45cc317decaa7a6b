"""The release catalogue: which version of each component is installed, with its chart and images."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec
import yaml

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


class ReleaseImage(msgspec.Struct, frozen=True):
    """A container image in the three parts that operators ask for."""

    repository: str
    image: str
    version: str


class ChartSource(msgspec.Struct, frozen=True):
    """Where a chart comes from; no repository where a component is not published as a chart."""

    name: str
    repository: str | None = None


class Release(msgspec.Struct, frozen=True):
    """One release of one component."""

    version: str
    date: str | None = None
    chart: str | None = None
    """Version of the chart, without the v."""
    kubernetes: dict[str, str] = {}
    images: dict[str, str] = {}

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers that compare: v26.4.1 is (26, 4, 1)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version))

    def image(self, name: str) -> ReleaseImage:
        """One of its images; KeyError if it has none of that name."""
        path, _, tag = self.images[name].rpartition(":")
        repository, _, image = path.rpartition("/")
        return ReleaseImage(repository, image, tag)


class Component(msgspec.Struct, frozen=True):
    """One component with the releases that are known, oldest first."""

    component: str
    releases: tuple[Release, ...]
    chart: ChartSource | None = None


@cache
def catalogue() -> dict[str, Component]:
    """All components by name."""
    raw = files("trackbed.cluster.stacks").joinpath("releases.yaml").read_bytes()
    known = msgspec.convert(yaml.load(raw, yaml.CSafeLoader), list[Component])
    return {component.component: component for component in known}


def release(plan: Plan, component: str) -> Release:
    """The release of a component that this plan takes: the one its Fabric names, else the newest."""
    wanted = dict(plan.kubernetes.versions).get(component)
    known = catalogue()[component].releases
    return next((one for one in known if one.version == wanted), known[-1])


def unknown_versions(plan: Plan) -> list[Problem]:
    """Versions that the Fabric names and the catalogue does not have."""
    return [
        Problem("unknown-version", _unknown(component, wanted), ("spec", "kubernetes", "versions", component))
        for component, wanted in plan.kubernetes.versions
        if wanted not in _versions(component)
    ]


def _versions(component: str) -> list[str]:
    return [one.version for one in catalogue()[component].releases] if component in catalogue() else []


def _unknown(component: str, wanted: str) -> str:
    known = ", ".join(_versions(component)) or "none: components are " + ", ".join(catalogue())
    return f"the release catalogue has no {component} {wanted!r}; it has {known}"
