"""A real helm with the real charts of other projects: every value that a stack writes exists, is read, and shows.

What no template reads, helm accepts without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.cluster.stacks.chart_fabrics import CASES, iter_paths, list_charts
from tests.cluster.stacks.their_charts import (
    ARCHIVES,
    Charts,
    Release,
    choose_component,
    find_archives,
    find_value,
    list_releases,
    replace_value,
)
from tools.pages.chart_values import ChartValue, Place, list_paths, load_chart_values
from trackbed.cluster.stacks.objects import Manifest

pytestmark = pytest.mark.may_skip("the charts of other projects are no part of this one (TRACKBED_CHARTS)")

FACTS = [fact for fact in load_chart_values() if fact.component in ARCHIVES]
ABSENT: Any = object()
"""What is not in an object."""
MAIN = "nvidia-network-operator@main"
VERSIONS = ["", "@main"]


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory, helm: str) -> Charts:
    return Charts(find_archives(), tmp_path_factory.mktemp("charts"), helm)


def iter_written(fact: ChartValue) -> Iterator[tuple[Release, Any]]:
    """Yield the releases of all Fabrics that write a value, with the value."""
    for stack, feature in CASES:
        for version in VERSIONS:
            for release in list_releases(stack, feature, version):
                component = release.component.partition("@")[0]
                written = dict(iter_paths(release.values, list_paths(component)))
                if component == fact.component and fact.value in written:
                    yield release, written[fact.value]


def read_place(objects: list[Manifest], place: Place) -> Any:
    """Return what an object holds at a place: for an object alone whether it exists, else ABSENT where it has none."""
    kind, _, name = place.object.partition("/")
    matches = [body for body in objects if (body["kind"], body["metadata"]["name"]) == (kind, name)]
    if not (place.env or place.field):
        return bool(matches)
    if not matches:
        return ABSENT
    body: Any = matches[0]
    if place.env:
        return read_environment(body, place.env)
    if place.file:
        body = yaml.load(body["data"][place.file], yaml.CSafeLoader)
    for part in str(place.field).split("."):
        body = body[int(part)] if part.isdigit() else body.get(part, ABSENT)
    return body


def read_environment(body: Manifest, name: str) -> Any:
    pod = body["spec"]["template"]["spec"]
    containers = [*pod.get("initContainers", ()), *pod["containers"]]
    values = [
        item.get("value") for container in containers for item in container.get("env", ()) if item["name"] == name
    ]
    return values[0] if values else ABSENT


def shows_value(shown: Any, value: Any) -> bool:
    """Return whether a field says what a value says: a mapping may hold more, and text may have text around it."""
    if isinstance(value, Mapping):
        return isinstance(shown, Mapping) and value.items() <= shown.items()
    if isinstance(shown, str):
        return (str(value).lower() if isinstance(value, bool) else str(value)) in shown
    return bool(shown == value)


def change_value(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}-changed"
    if isinstance(value, Mapping):
        return {name: change_value(inner) for name, inner in value.items()}
    return [change_value(inner) for inner in value] if isinstance(value, list) else value + 1


each_fact = pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.component}, {fact.value}")


@each_fact
def test_the_chart_has_the_value_with_this_default(charts: Charts, fact: ChartValue) -> None:
    components = {release.component for release, _ in iter_written(fact)}
    assert components >= {fact.component}
    path = tuple(fact.value.split("."))
    assert [find_value(charts.read_defaults(name), path) for name in components] == [fact.default] * len(components)


@each_fact
def test_another_value_changes_what_helm_renders(charts: Charts, fact: ChartValue) -> None:
    for release in {release.key: release for release, _ in iter_written(fact)}.values():
        path = tuple(fact.value.split("."))
        other = replace_value(release, path, change_value(find_value(release.values, path)))
        before, after = (read_place(charts.render(each), fact.shows) for each in (release, other))
        assert before != after, release


@each_fact
def test_the_objects_say_what_every_fabric_wants(charts: Charts, fact: ChartValue) -> None:
    for release, value in iter_written(fact):
        assert shows_value(read_place(charts.render(release), fact.shows), value), release


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("stack", "feature"), CASES)
def test_what_an_installation_waits_for_is_installed(charts: Charts, stack: str, feature: str, version: str) -> None:
    for step in list_charts(stack, feature):
        component = choose_component(step.chart.component, version)
        if component in ARCHIVES:
            objects = charts.render(Release(component, step.release_name, step.chart.namespace, step.chart.values))
            names = {f"{body['kind'].lower()}/{body['metadata']['name']}" for body in objects}
            assert {wait.resource for wait in step.waits} <= names


@pytest.mark.parametrize(("stack", "feature"), CASES)
def test_one_chart_alone_installs_node_feature_discovery(charts: Charts, stack: str, feature: str) -> None:
    masters = [
        body["metadata"]["name"]
        for release in list_releases(stack, feature)
        for body in charts.render(release)
        if body["kind"] == "Deployment" and body["metadata"]["name"].endswith("node-feature-discovery-master")
    ]
    assert len(masters) == 1


def test_the_archives_are_those_of_the_catalogue(charts: Charts) -> None:
    """A chart that says its version says that of the newest release."""
    versions = {name: yaml.safe_load((charts.locate(name) / "Chart.yaml").read_text())["version"] for name in ARCHIVES}
    assert versions["nvidia-network-operator"] == "26.4.1"
    assert versions["spiderpool"] == "1.2.2"
    assert all(re.match(r"\d|v1.0.0-devel", version) for version in versions.values())
