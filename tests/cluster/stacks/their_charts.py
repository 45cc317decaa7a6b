"""The real charts of other projects, and the objects that helm makes of them with a stack's values.

TRACKBED_CHARTS names the folder of their archives, which are no part of the project; without it, and without
../shared/peers/charts, the tests that need them are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.stacks.chart_fabrics import list_charts
from trackbed.cluster.stacks.objects import Manifest

ROOT = Path(__file__).parents[3]
KUBERNETES = "1.36.3"
ARCHIVES = {
    "nvidia-network-operator": ("network-operator-26.4.1", "deployment/network-operator"),
    "nvidia-network-operator@main": ("network-operator-main", "deployment/network-operator"),
    "nvidia-gpu-operator": ("gpu-operator-26.7.0", "deployments/gpu-operator"),
    "sriov-network-operator": ("sriov-network-operator-1.6.0", "deployment/sriov-network-operator-chart"),
    "spiderpool": ("spiderpool-1.2.2", "charts/spiderpool"),
    "whereabouts": ("whereabouts-0.9.4", "deployment/whereabouts-chart"),
    "dra-driver-sriov": ("dra-driver-sriov", "deployments/helm/dra-driver-sriov"),
}
"""Component -> name of the archive, and the chart's folder in it. There is no archive of DRANET's chart."""
MANIFESTS = {
    "nvidia-network-operator": ("network-operator-manifests-26.4.1", "manifests"),
    "nvidia-network-operator@main": ("network-operator-manifests-main", "manifests"),
    "nv-ipam": ("nv-ipam-deploy", "deploy"),
    "sriov-network-operator": ("sriov-network-operator-bindata-1.6.0", "bindata"),
}
"""Component -> name of the archive and its folder of objects that no chart installs."""


def find_archives() -> Path:
    """Return the folder of the archives; skip where there is none, and fail where TRACKBED_CHARTS names none."""
    named = os.environ.get("TRACKBED_CHARTS")
    folder = Path(named or ROOT.parent / "shared" / "peers" / "charts")
    if named and not folder.is_dir():
        pytest.fail(f"TRACKBED_CHARTS is {named}, which is no folder")
    if not folder.is_dir():
        pytest.skip(f"needs the charts of other projects: {folder} does not exist; TRACKBED_CHARTS names their folder")
    return folder


@dataclass(frozen=True)
class Release:
    """A chart to render: its component, the name and the namespace of its release, and its values."""

    component: str
    name: str
    namespace: str
    values: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Text that is equal for equal releases."""
        return json.dumps([self.component, self.name, self.namespace, self.values], sort_keys=True)


def list_releases(stack: str, feature: str, version: str = "") -> list[Release]:
    """Return the releases of an installation whose charts are at hand; `version` "@main" takes what is not released."""
    return [
        Release(component, step.release_name, step.chart.namespace, step.chart.values)
        for step in list_charts(stack, feature)
        for component in [choose_component(step.chart.component, version)]
        if component in ARCHIVES
    ]


def choose_component(component: str, version: str) -> str:
    """Return the name of a component's chart in a version; the released one where the version is not at hand."""
    return component + version if component + version in ARCHIVES else component


class Charts:
    """The unpacked charts; what helm rendered is kept."""

    def __init__(self, archives: Path, folder: Path, helm: str) -> None:
        self._archives, self._folder, self._helm = archives, folder, helm
        self._cache: dict[str, list[Manifest]] = {}

    def locate(self, component: str) -> Path:
        """Return the folder of a chart."""
        return self._unpack(*ARCHIVES[component])

    def locate_manifests(self, component: str) -> Path:
        """Return the folder of the objects that a component installs itself, or that are applied without a chart."""
        return self._unpack(*MANIFESTS[component])

    def _unpack(self, archive: str, path: str) -> Path:
        target = self._folder / archive
        if not target.is_dir():
            with tarfile.open(self._archives / f"{archive}.tar.xz") as tar:
                tar.extractall(target, filter="data")
        return target / path

    def render(self, release: Release) -> list[Manifest]:
        """Return all objects of a release, those of hooks included, those of folder crds not."""
        if release.key not in self._cache:
            self._cache[release.key] = self._render(release)
        return self._cache[release.key]

    def _render(self, release: Release) -> list[Manifest]:
        result = self.run(release, "template", "--kube-version", KUBERNETES)
        assert not result.returncode, result.stderr
        assert "warning" not in result.stderr.lower(), result.stderr
        return [body for body in yaml.load_all(result.stdout, yaml.CSafeLoader) if body]

    def run(self, release: Release, *words: str) -> subprocess.CompletedProcess[str]:
        """Run helm with a release's name, chart, namespace and values."""
        command, *options = words
        chart = str(self.locate(release.component))
        argv = [self._helm, command, release.name, chart, "--namespace", release.namespace, "--values", "-", *options]
        values = json.dumps(release.values)
        return subprocess.run(argv, input=values, capture_output=True, text=True, timeout=120, check=False)

    def uninstall(self, release: Release, *options: str) -> None:
        """Remove an installed release."""
        argv = [self._helm, "uninstall", release.name, "--namespace", release.namespace, *options]
        subprocess.run(argv, capture_output=True, timeout=120, check=True)

    def read_defaults(self, component: str) -> dict[str, Any]:
        """Return a chart's default values with those of its subcharts, over which the chart's own win."""
        return _read_defaults(self.locate(component))


def _read_defaults(chart: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.load((chart / "values.yaml").read_bytes(), yaml.CSafeLoader) or {}
    for subchart in sorted((chart / "charts").glob("*/")):
        values[subchart.name] = _merge(_read_defaults(subchart), values.get(subchart.name) or {})
    return values


def _merge(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in overrides.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def find_value(values: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path. Raises KeyError where no chart has it, except in a mapping of the user's own."""
    for number, name in enumerate(path):
        if values == {} and number:
            return None
        values = values[name]
    return values


def replace_value(release: Release, path: tuple[str, ...], value: object) -> Release:
    """Return a release with another value at a path."""
    values = json.loads(json.dumps(release.values))
    section = values
    for name in path[:-1]:
        section = section[name]
    section[path[-1]] = value
    return replace(release, values=values)
