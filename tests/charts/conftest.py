"""An API server that only the chart's tests use: they take everything away again, other people's Fabrics included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import connect

from tests.charts.chart import NAMESPACE, RELEASE
from tests.charts.cluster import Site, uninstalled
from tests.cluster.webhook.live import make_namespace


@pytest.fixture(scope="session")
def chart_server(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[Path]:
    """The kubeconfig of an API server with namespaces and nothing else."""
    with control_plane.run_control_plane(
        tmp_path_factory.mktemp("chart"), control_plane_programs, controllers=False
    ) as kubeconfig:
        with connect(str(kubeconfig)) as client:
            for name in (NAMESPACE, "default"):
                make_namespace(client, name)
        yield kubeconfig


@pytest.fixture
def site(chart_server: Path, helm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A cluster without the chart, and without it again afterwards; helm has folders of its own."""
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / name))
    with connect(str(chart_server)) as client:
        new_site = Site(client, chart_server, helm, tmp_path)
        yield new_site
        new_site.tried("uninstall", RELEASE, "--no-hooks")
        uninstalled(new_site)
        for left in [*client.list("v1", "Pod", NAMESPACE), *client.list("v1", "Node")]:
            client.delete(left)
