"""What helm is asked and what is made of its refusals: by a stand-in that writes down its words, and by helm itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.waiting import wait_until
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import helm as helm_module
from trackbed.cluster.rollout.helm import Helm, HelmError
from trackbed.cluster.stacks.install.steps import InstallChart
from trackbed.cluster.stacks.releases import ChartSource
from trackbed.cluster.stacks.stack import Chart

pytestmark = pytest.mark.needs("processes")

CHART = Chart("spiderpool", "spiderpool", {"ipam": {"enableIPv6": False}})
STEP = InstallChart(CHART, ChartSource("spiderpool", "https://charts.example.com"), "1.2.3")


def program(folder: Path, script: str) -> str:
    path = folder / "helm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_chart_is_installed_or_upgraded_with_its_values_on_standard_input(tmp_path: Path) -> None:
    helm = program(tmp_path, f'echo "$@" >{tmp_path}/words; cat >{tmp_path}/values')
    asyncio.run(Helm("/etc/kubeconfig", "site", helm).install(STEP))
    assert (tmp_path / "words").read_text() == (
        "upgrade --install spiderpool spiderpool --namespace spiderpool --create-namespace --values - --timeout 15m "
        "--version 1.2.3 --repo https://charts.example.com --kubeconfig /etc/kubeconfig --kube-context site\n"
    )
    assert json.loads((tmp_path / "values").read_text()) == {"ipam": {"enableIPv6": False}}


def test_a_chart_of_an_oci_registry_is_named_by_its_address() -> None:
    step = InstallChart(CHART, ChartSource("x", "oci://registry.example.com/charts"), None)
    words = Helm().build_arguments(step)
    assert words[3] == "oci://registry.example.com/charts/x"
    assert not {"--repo", "--version", "--kubeconfig"} & set(words)


def test_helms_own_words_are_told_when_it_fails(tmp_path: Path) -> None:
    fails = program(tmp_path, "echo 'Error: UPGRADE FAILED: another operation is in progress' >&2; exit 1")
    with pytest.raises(
        HelmError, match=r"chart spiderpool: Error: UPGRADE FAILED: another .*: `helm rollback spiderpool --namespace"
    ):
        asyncio.run(Helm(program=fails).install(STEP))


def test_a_machine_without_helm_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HelmError, match=r"chart spiderpool needs the program .*; install it, or say --skip spiderpool"):
        asyncio.run(Helm(program=str(tmp_path / "none")).install(STEP))


@pytest.mark.parametrize(
    ("reaction", "grace_seconds", "outcome"),
    [
        pytest.param("echo recorded >outcome; exit 1", 20.0, "recorded\n", id="helm-ends"),
        pytest.param(":", 0.5, "", id="helm-hangs"),
    ],
)
def test_a_cancelled_helm_gets_the_time_to_record_its_release_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaction: str, grace_seconds: float, outcome: str
) -> None:
    # dash loses a signal that comes while it starts a program in the foreground (onsig, vforked)
    script = f"cd {tmp_path}; trap '{reaction}' TERM; : >outcome; while :; do sleep 0.05 & wait $!; done"
    path = program(tmp_path, script)
    monkeypatch.setattr(helm_module, "_GRACE_SECONDS", grace_seconds)

    async def cancel() -> None:
        task = asyncio.create_task(Helm(program=path).install(STEP))
        await asyncio.to_thread(wait_until, (tmp_path / "outcome").exists, "helm is at work")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert (tmp_path / "outcome").read_text() == outcome


NAMESPACE = "charts"
MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {value: {{ required "say a value" .Values.value | quote }}}
"""
HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: pre-upgrade}
spec:
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      containers: [{name: main, image: example.com/x}]
"""


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        yield blocking_client


@pytest.fixture
def installer(helm: str, api_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helm:
    """Helm on the real API server, with folders of its own."""
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / name))
    return Helm(str(api_server), program=helm)


def chart(folder: Path, **templates: str) -> str:
    """A chart of these templates."""
    (folder / "chart" / "templates").mkdir(parents=True, exist_ok=True)
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 1.0.0\n")
    for name, text in templates.items():
        (folder / "chart" / "templates" / f"{name}.yaml").write_text(text)
    return str(folder / "chart")


def tiny(release: str, path: str, **values: Any) -> InstallChart:
    return InstallChart(Chart(release, NAMESPACE, values), ChartSource(path), None)


def releases(client: BlockingClient, name: str) -> list[Object]:
    return list(client.list("v1", "Secret", NAMESPACE, selector=f"owner=helm,name={name}"))


def test_a_chart_is_installed_then_upgraded_with_the_values_of_the_stack(
    client: BlockingClient, installer: Helm, tmp_path: Path
) -> None:
    path = chart(tmp_path, map=MAP)
    for value in ("1", "2 {{ not a template }}"):
        asyncio.run(installer.install(tiny("upgraded", path, value=value)))
        assert client.get("v1", "ConfigMap", "upgraded", NAMESPACE)["data"] == {"value": value}
    assert len(releases(client, "upgraded")) == 2


@pytest.mark.parametrize(
    ("template", "values", "message"),
    [
        pytest.param(MAP, {}, "say a value", id="a value is missing"),
        pytest.param(
            "apiVersion: v1\nkind: Pott\nmetadata: {name: x}\n", {}, 'no matches for kind "Pott"', id="no crd"
        ),
        pytest.param(MAP.replace("{value", "{not valid"), {"value": "1"}, "Invalid value", id="refused by the server"),
    ],
)
def test_a_chart_that_fails_is_told_in_helms_words_with_where_to_look(  # noqa: PLR0913, PLR0917 - three fixtures, a row of three
    installer: Helm, tmp_path: Path, request: pytest.FixtureRequest, template: str, values: dict[str, str], message: str
) -> None:
    release = f"fails-{request.node.callspec.id.replace(' ', '-')}"
    with pytest.raises(HelmError) as caught:
        asyncio.run(installer.install(tiny(release, chart(tmp_path, map=template), **values)))
    assert message in str(caught.value)
    assert str(caught.value).endswith(f"; `helm status {release} --namespace {NAMESPACE}` says more")


def test_a_release_that_a_killed_helm_left_pending_is_told_with_the_way_out(
    client: BlockingClient, installer: Helm, tmp_path: Path
) -> None:
    asyncio.run(installer.install(tiny("killed", chart(tmp_path, map=MAP), value="1")))
    path = chart(tmp_path, map=MAP, hook=HOOK)
    words = installer.build_arguments(tiny("killed", path, value="2"))
    with subprocess.Popen([installer.program, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(b'{"value": "2"}')
        running.stdin.close()
        pending(client, "killed")
        os.kill(running.pid, signal.SIGKILL)
    with pytest.raises(
        HelmError, match=r"in progress; helm was ended in the middle: `helm rollback killed --namespace"
    ):
        asyncio.run(installer.install(tiny("killed", path, value="2")))
    subprocess.run(
        [installer.program, "rollback", "killed", "--namespace", NAMESPACE, *words[-2:]], check=True, timeout=60
    )
    asyncio.run(installer.install(tiny("killed", chart(tmp_path, hook=""), value="3")))
    assert client.get("v1", "ConfigMap", "killed", NAMESPACE)["data"] == {"value": "3"}


def test_a_cancelled_helm_leaves_no_pending_release(client: BlockingClient, installer: Helm, tmp_path: Path) -> None:
    asyncio.run(installer.install(tiny("cancelled", chart(tmp_path, map=MAP), value="1")))
    path = chart(tmp_path, map=MAP, hook=HOOK)

    async def cancel() -> None:
        task = asyncio.create_task(installer.install(tiny("cancelled", path, value="2")))
        await asyncio.to_thread(pending, client, "cancelled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    asyncio.run(installer.install(tiny("cancelled", chart(tmp_path, hook=""), value="3")))
    assert client.get("v1", "ConfigMap", "cancelled", NAMESPACE)["data"] == {"value": "3"}


def pending(client: BlockingClient, name: str) -> None:
    """Until helm has written down that it is at work and waits for its hook."""
    wait_until(lambda: client.find("batch/v1", "Job", f"{name}-hook", NAMESPACE), "helm gets to its hook")
