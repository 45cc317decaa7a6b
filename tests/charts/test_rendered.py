"""What helm renders of the chart: sound, the same as its sources, and no mightier than it must be."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.charts.chart import CHART, EVERYTHING, NAMESPACE, NOTHING, RELEASE, metadata, only, rendered, run
from tools.pages.crds import iter_crds
from trackbed import __version__
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.native.daemon import daemon_set
from trackbed.cluster.stacks.releases import catalogue
from trackbed.fabric.yaml_text import render_documents

SETS: dict[str, dict[str, Any]] = {"default": {}, "everything": EVERYTHING, "nothing": NOTHING}
IMAGE = f"ghcr.io/trackbed/agent:{__version__}"


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_helm_finds_nothing_wrong(helm: str, values: dict[str, Any]) -> None:
    done = run(helm, "lint", "--strict", str(CHART), values=values)
    assert not done.returncode, done.stdout


def test_the_chart_is_of_trackbeds_version() -> None:
    assert metadata()["appVersion"] == __version__
    assert metadata()["version"] == re.sub(r"\.?(dev|a|b|rc)", r"-\1", __version__)


def test_its_image_is_the_one_that_stack_native_runs(helm: str) -> None:
    assert catalogue()["trackbed"].releases[-1].images["agent"] == IMAGE
    images = {one["image"] for made in rendered(helm) for one in _containers(made)}
    assert images == {IMAGE}


def test_a_digest_comes_before_the_tag(helm: str) -> None:
    images = {one["image"] for made in rendered(helm, EVERYTHING) for one in _containers(made)}
    assert images == {f"ghcr.io/trackbed/agent@{EVERYTHING['image']['digest']}"}


def test_it_has_the_definitions_that_the_models_give_and_never_deletes_them(helm: str) -> None:
    found = [one for one in rendered(helm) if one["kind"] == "CustomResourceDefinition"]
    kept = [one["metadata"].pop("annotations") for one in found]
    assert found == list(iter_crds())
    assert kept == [{"helm.sh/resource-policy": "keep"}] * 2


def test_the_agent_is_stack_natives(helm: str) -> None:
    assert (
        only(rendered(helm), "DaemonSet", "trackbed-agent")["spec"]
        == yaml.safe_load("".join(render_documents([daemon_set(IMAGE)])))["spec"]
    )


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_prepare_alone_is_privileged(helm: str, values: dict[str, Any]) -> None:
    mighty = {
        made["metadata"]["name"]
        for made in rendered(helm, values)
        for one in _containers(made)
        if one["securityContext"].get("privileged") or made["spec"]["template"]["spec"].get("hostPID")
    }
    assert mighty == {"trackbed-prepare"}


def test_every_object_is_named_as_part_of_its_release(helm: str) -> None:
    wanted = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/part-of": "trackbed"}
    for one in rendered(helm, EVERYTHING):
        if one["kind"] != "CustomResourceDefinition":
            assert wanted.items() <= one["metadata"]["labels"].items(), one["metadata"]["name"]


@pytest.mark.parametrize("name", ["controller", "webhook", "uninstall", "leave"])
def test_what_must_outlive_a_roll_out_runs_on_nodes_that_are_being_prepared(helm: str, name: str) -> None:
    kind = "Job" if name in {"uninstall", "leave"} else "Deployment"
    pod = only(rendered(helm), kind, f"trackbed-{name}")["spec"]["template"]["spec"]
    assert pod["tolerations"] == [
        {"key": "trackbed.dev/preparing", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    ]


def test_tolerations_of_a_site_come_beside_ours(helm: str) -> None:
    pod = only(rendered(helm, EVERYTHING), "Deployment", "trackbed-controller")["spec"]["template"]["spec"]
    assert [one["key"] for one in pod["tolerations"]][2:] == ["nvidia.com/gpu"]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "site/role": "services"}


def test_the_controller_applies_the_stacks_that_are_named_and_no_others(helm: str) -> None:
    told = [
        [word for word in _command(rendered(helm, values)) if word.startswith("--stacks")]
        for values in (EVERYTHING, {})
    ]
    assert told == [["--stacks=sriov-operator,spiderpool"], []]


def _command(objects: list[Object]) -> list[str]:
    pod = only(objects, "Deployment", "trackbed-controller")["spec"]["template"]["spec"]
    return list(pod["containers"][0]["command"])


def test_a_node_selector_of_a_site_leaves_the_default_values_alone(helm: str) -> None:
    names = ("controller", "webhook")
    pods = [only(rendered(helm), "Deployment", f"trackbed-{name}")["spec"]["template"]["spec"] for name in names]
    assert [pod["nodeSelector"] for pod in pods] == [{"kubernetes.io/os": "linux"}] * 2


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"controller": {"replica": 3}}, "'replica' not allowed", id="a typo"),
        pytest.param({"webhok": {}}, "'webhok' not allowed", id="a typo at the top"),
        pytest.param({"webhook": {"url": "http://x:1"}}, "/webhook/url", id="no https"),
        pytest.param({"webhook": {"port": 0}}, "/webhook/port", id="no port"),
        pytest.param({"image": {"digest": "sha256:12"}}, "/image/digest", id="no digest"),
    ],
)
def test_a_value_that_means_nothing_is_refused(helm: str, values: dict[str, Any], said: str) -> None:
    done = run(helm, "template", RELEASE, str(CHART), values=values)
    assert said in done.stderr


def test_a_cluster_that_is_too_old_is_refused(helm: str) -> None:
    done = run(helm, "template", RELEASE, str(CHART), "--kube-version", "1.29.9")
    assert "chart requires kubeVersion: >=1.30.0-0" in done.stderr


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        pytest.param(
            "",
            {"dnsNames": [f"trackbed-webhook.{NAMESPACE}.svc", f"trackbed-webhook.{NAMESPACE}.svc.cluster.local"]},
            id="service",
        ),
        pytest.param("https://rails.example.com:443", {"dnsNames": ["rails.example.com"]}, id="name"),
        pytest.param("https://10.0.0.1:8443", {"ipAddresses": ["10.0.0.1"]}, id="IPv4"),
        pytest.param("https://[fd00::1]:8443", {"ipAddresses": ["fd00::1"]}, id="IPv6"),
    ],
)
def test_cert_manager_is_asked_for_the_name_by_which_the_webhook_is_called(
    helm: str, url: str, wanted: dict[str, list[str]]
) -> None:
    made = rendered(helm, {"certManager": {"enabled": True}, "webhook": {"url": url}})
    spec = only(made, "Certificate", "trackbed-webhook")["spec"]
    assert {key: spec[key] for key in ("dnsNames", "ipAddresses") if key in spec} == wanted
    assert spec["issuerRef"]["name"] == "trackbed-webhook-authority"


def test_an_issuer_of_the_site_comes_in_place_of_the_releases_own(helm: str) -> None:
    issuer = {"name": "site", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    made = rendered(helm, {"certManager": {"enabled": True, "issuerRef": issuer}})
    assert not [one for one in made if one["kind"] == "Issuer"]
    assert only(made, "Certificate", "trackbed-webhook")["spec"]["issuerRef"] == issuer


def test_only_what_shall_stay_stays(helm: str) -> None:
    assert _uninstalls(helm, {}) == []
    assert _uninstalls(helm, {"uninstall": {"keepLocks": True}}) == ["--keep-locks"]
    assert _uninstalls(helm, {"crds": {"keep": True}}) == ["--keep-fabrics"]
    assert _uninstalls(helm, {"crds": {"enabled": False}}) == ["--keep-fabrics"]


def _uninstalls(helm: str, values: dict[str, Any]) -> list[str]:
    [container] = _containers(only(rendered(helm, values), "Job", "trackbed-uninstall"))
    return [word for word in container["command"] if word.startswith("--keep")]


def _containers(one: Object) -> list[Object]:
    return list(one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []))
