"""A real helm installs the real charts on a real API server, which then takes the stack's objects by the charts' CRDs.

Nothing runs there: no controller, no hook's job. What an operator would install itself, its manifests bring.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api_server import accepted
from tests.cluster.stacks.chart_fabrics import FABRICS, compute_case
from tests.cluster.stacks.chart_site import NETWORK_OPERATOR, Site, load_operators_crds, run_site
from tests.cluster.stacks.their_charts import list_releases
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.nfd import build_node_feature_rules
from trackbed.cluster.stacks.stack import iter_objects

pytestmark = [
    pytest.mark.may_skip("the charts of other projects are no part of this one (TRACKBED_CHARTS)"),
    pytest.mark.slow,
]

VERSIONS = ["", "@main"]


@pytest.fixture(scope="module")
def bare_site(tmp_path_factory: pytest.TempPathFactory, helm: str) -> Iterator[Site]:
    with run_site(tmp_path_factory, helm) as bare:
        yield bare


@pytest.fixture
def site(bare_site: Site) -> Iterator[Site]:
    yield bare_site
    bare_site.clean()


CASES = [
    (stack, version)
    for stack, features in FABRICS.items()
    for version in VERSIONS
    if not version
    or NETWORK_OPERATOR + version in {each.component for each in list_releases(stack, next(iter(features)), version)}
]


@pytest.mark.parametrize(("stack", "version"), CASES)
def test_the_charts_install_and_their_kinds_take_the_objects(site: Site, stack: str, version: str) -> None:
    check_features(site, stack, version, list(FABRICS[stack])[:1])


@pytest.mark.nightly("helm upgrades charts some seventy times")
@pytest.mark.parametrize(("stack", "version"), CASES)
def test_the_charts_are_upgraded_from_fabric_to_fabric(site: Site, stack: str, version: str) -> None:
    check_features(site, stack, version, list(FABRICS[stack]))


def check_features(site: Site, stack: str, version: str, features: list[str]) -> None:
    """Install the charts for the first Fabric, upgrade them for the others, and create the objects of each."""
    for number, feature in enumerate(features):
        releases = list_releases(stack, feature, version)
        assert [problem for release in releases for problem in site.install(release)] == [], feature
        site.drop_webhooks()
        if not number:
            load_operators_crds(site, stack, {release.component for release in releases})
        plan = compute_case(stack, feature)
        objects = [*iter_objects(load_stack(stack), plan), *build_node_feature_rules(plan)]
        assert accepted(site.client, objects) == [], feature
