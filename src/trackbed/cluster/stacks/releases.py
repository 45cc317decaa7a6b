"""The release catalogue: the known versions of each component, with its charts and images."""

import re
from functools import cache
from importlib.resources import files

import msgspec
import yaml

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


class ReleaseImage(msgspec.Struct, frozen=True):
    """A container image, split into the three parts that operators expect."""

    repository: str
    image: str
    version: str


class ChartSource(msgspec.Struct, frozen=True):
    """Name and repository of a Helm chart; the repository is None if no chart is published."""

    name: str
    repository: str | None = None


class Release(msgspec.Struct, frozen=True):
    """A release of a component: its version, and the chart and images that belong to it."""

    version: str
    date: str | None = None
    chart: str | None = None
    """Version of the chart, without the leading v; None if it is that of the release."""
    kubernetes: dict[str, str] = {}
    images: dict[str, str] = {}

    @property
    def number(self) -> tuple[int, ...]:
        """The numbers of the version, for comparison: v26.4.1 is (26, 4, 1)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version))

    def get_image(self, name: str) -> ReleaseImage:
        """Return the image with this name in the catalogue; raises KeyError for an unknown name."""
        path, _, tag = self.images[name].rpartition(":")
        repository, _, image = path.rpartition("/")
        return ReleaseImage(repository, image, tag)


class Component(msgspec.Struct, frozen=True):
    """A component, such as nvidia-network-operator, and its known releases, oldest first."""

    component: str
    releases: tuple[Release, ...]
    chart: ChartSource | None = None


@cache
def load_catalogue() -> dict[str, Component]:
    """Return all components of the release catalogue by name."""
    raw = files("trackbed.cluster.stacks").joinpath("releases.yaml").read_bytes()
    components = msgspec.convert(yaml.load(raw, yaml.CSafeLoader), list[Component])
    return {component.component: component for component in components}


def choose_release(plan: Plan, component: str) -> Release:
    """Return the release of a component that the Fabric chooses, or else its newest."""
    version = dict(plan.kubernetes.versions).get(component)
    releases = load_catalogue()[component].releases
    return next((release for release in releases if release.version == version), releases[-1])


def find_unknown_versions(plan: Plan) -> list[Problem]:
    """Return a problem for each version in the Fabric that the release catalogue lacks."""
    return [
        Problem(
            "unknown-version",
            _describe_unknown_version(component, version),
            ("spec", "kubernetes", "versions", component),
        )
        for component, version in plan.kubernetes.versions
        if version not in _list_versions(component)
    ]


def _list_versions(component: str) -> list[str]:
    return (
        [release.version for release in load_catalogue()[component].releases] if component in load_catalogue() else []
    )


def _describe_unknown_version(component: str, version: str) -> str:
    versions = ", ".join(_list_versions(component)) or "none: components are " + ", ".join(load_catalogue())
    return f"the release catalogue has no {component} {version!r}; it has {versions}"
