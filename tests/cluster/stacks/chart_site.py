"""An API server on which a real helm installs the real charts: no controller runs there, and no job of a hook."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from trackbed_lab.kubernetes import build, control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.programs import CONTROL_PLANE

from tests.api_server import accepted
from tests.cluster.stacks.their_charts import MANIFESTS, Charts, Release, find_archives
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.objects import Manifest

CRD = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
HOOK = "helm.sh/hook"
UNKNOWN_KIND = "no matches for kind"
SECONDS = 60.0
NETWORK_OPERATOR, GPU_OPERATOR = "nvidia-network-operator", "nvidia-gpu-operator"
KNOWN = re.compile(
    r"node-role.kubernetes.io/master is use|beta.kubernetes.io/os is deprecated|hides? previous definition"
)
"""Warnings of charts' own: labels in their affinities that Kubernetes has other names for, variables set twice."""


class Site:
    """An API server, and helm on it."""

    def __init__(self, client: BlockingClient, kubeconfig: Path, charts: Charts) -> None:
        self.client, self.kubeconfig, self.charts = client, kubeconfig, charts
        self._kubeconfig = ("--kubeconfig", str(kubeconfig))
        self._keys: set[str] = set()
        self._releases: dict[str, Release] = {}

    def install(self, release: Release) -> list[str]:
        """Install a chart as install.sh does; return what helm and the server complain of, except what is known.

        A GPU Operator that another stack had, and that brings no CRD of a stack's objects, is left out.
        """
        if release.key in self._keys and release.component == GPU_OPERATOR and not release.values["nfd"]["enabled"]:
            return []
        self._keys.add(release.key)
        self._releases[release.name] = release
        lines = self._run_helm(release).splitlines()
        return [line for line in (*lines, *self._try_hooks(release)) if not KNOWN.search(line)]

    def _run_helm(self, release: Release) -> str:
        """Return what helm complains of. A busy server may serve a CRD a moment after it has called it established."""
        words = ("upgrade", "--install", "--create-namespace", "--no-hooks", *self._kubeconfig)
        deadline = time.monotonic() + SECONDS
        while UNKNOWN_KIND in (stderr := self.charts.run(release, *words).stderr) and time.monotonic() < deadline:
            time.sleep(1)
        return stderr

    def _try_hooks(self, release: Release) -> list[str]:
        """Create the objects of a chart's hooks for a moment; return what the server complains of."""
        hooks = [body for body in self.charts.render(release) if HOOK in (body["metadata"].get("annotations") or {})]
        return accepted(self.client, [body | {"metadata": with_namespace(body, release)} for body in hooks])

    def drop_webhooks(self) -> None:
        """Delete the webhooks of charts, whose programs do not run here."""
        for kind in WEBHOOKS:
            for body in self.client.list("admissionregistration.k8s.io/v1", kind):
                self.client.delete(body)

    def load_crds(self, folder: Path) -> None:
        """Load the CRDs of a folder of manifests that no chart has brought."""
        there = {body["metadata"]["name"] for body in self.client.list(*CRD)}
        paths = [path for path in folder.rglob("*.yaml") if f"kind: {CRD[1]}\n" in path.read_text()]
        definitions = [body for path in paths for body in yaml.load_all(path.read_bytes(), yaml.CSafeLoader) if body]
        crds.install_crds(self.client, [body for body in definitions if body["metadata"]["name"] not in there])

    def clean(self) -> None:
        """Remove all releases and all CRDs; helm takes one that is about to go for one that is there."""
        for release in reversed(self._releases.values()):
            self.charts.uninstall(release, "--no-hooks", "--ignore-not-found", *self._kubeconfig)
        self._releases = {}
        self.drop_webhooks()
        deadline = time.monotonic() + SECONDS
        while definitions := self.client.list(*CRD):
            assert time.monotonic() < deadline, f"{len(definitions)} CRDs are still there"
            for body in definitions:
                self.client.delete(body)
            time.sleep(0.5)


def with_namespace(body: Manifest, release: Release) -> Object:
    """Return the metadata of an object in its release's namespace, where it names none."""
    where = {} if body["kind"].startswith("Cluster") else {"namespace": release.namespace}
    return {**where, **body["metadata"]}


@contextmanager
def run_site(folders: pytest.TempPathFactory, helm: str) -> Iterator[Site]:
    """Run an API server without charts; helm keeps its files in a folder of the server's own."""
    charts = Charts(find_archives(), folders.mktemp("charts"), helm)
    programs = build.build_programs(CONTROL_PLANE, print)
    folder = folders.mktemp("control-plane")
    with (
        pytest.MonkeyPatch.context() as environment,
        control_plane.run_control_plane(folder, programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        for name in ("CACHE", "CONFIG", "DATA"):
            environment.setenv(f"HELM_{name}_HOME", str(folders.mktemp(name.lower())))
        yield Site(client, kubeconfig, charts)


def load_operators_crds(site: Site, stack: str, components: set[str]) -> None:
    """Load the CRDs that operators install for a NicClusterPolicy, or that come with NV-IPAM's own manifests."""
    for component in components & set(MANIFESTS):
        site.load_crds(site.charts.locate_manifests(component))
    if stack == "sriov-operator":
        site.load_crds(site.charts.locate_manifests("nv-ipam"))
