"""What helm renders of the chart: sound, the same as its sources, and no mightier than it must be."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.charts.chart import CHART, EVERYTHING, NAMESPACE, NOTHING, RELEASE, VERSION, metadata, only, rendered, run
from tools.pages.crds import iter_crds
from trackbed import __version__
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.native.daemon import build_daemon_set
from trackbed.cluster.stacks.releases import load_catalogue
from trackbed.fabric.yaml_text import render_documents

SETS: dict[str, dict[str, Any]] = {"default": {}, "everything": EVERYTHING, "nothing": NOTHING}
IMAGE = f"localhost/trackbed/agent:{__version__}"


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_helm_finds_nothing_wrong(helm: str, values: dict[str, Any]) -> None:
    done = run(helm, "lint", "--strict", str(CHART), values=values)
    assert not done.returncode, done.stdout


def test_the_chart_is_of_trackbeds_version() -> None:
    assert metadata()["appVersion"] == __version__
    assert metadata()["version"] == re.sub(r"\.?(dev|a|b|rc)", r"-\1", __version__)


def test_its_image_is_the_one_that_stack_native_runs(helm: str) -> None:
    assert load_catalogue()["trackbed"].releases[-1].images["agent"] == IMAGE
    images = {container["image"] for made in rendered(helm) for container in _containers(made)}
    assert images == {IMAGE}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_without_an_image_nothing_is_installed_and_the_message_says_how_to_build_one(
    helm: str, values: dict[str, Any]
) -> None:
    image = {**values.get("image", {}), "repository": ""}
    done = run(helm, "template", RELEASE, str(CHART), "--kube-version", VERSION, values={**values, "image": image})
    assert done.returncode
    assert "podman build -t REGISTRY/trackbed:TAG ." in done.stderr
    assert "--set image.repository=REGISTRY/trackbed,image.tag=TAG" in done.stderr


def test_a_digest_comes_before_the_tag(helm: str) -> None:
    images = {container["image"] for made in rendered(helm, EVERYTHING) for container in _containers(made)}
    assert images == {f"localhost/trackbed/agent@{EVERYTHING['image']['digest']}"}


def test_it_has_the_definitions_that_the_models_give_and_never_deletes_them(helm: str) -> None:
    definitions = [body for body in rendered(helm) if body["kind"] == "CustomResourceDefinition"]
    kept = [definition["metadata"].pop("annotations") for definition in definitions]
    assert definitions == list(iter_crds())
    assert kept == [{"helm.sh/resource-policy": "keep"}] * 2


def test_the_agent_is_stack_natives(helm: str) -> None:
    assert (
        only(rendered(helm), "DaemonSet", "trackbed-agent")["spec"]
        == yaml.safe_load("".join(render_documents([build_daemon_set(IMAGE)])))["spec"]
    )


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_prepare_alone_is_privileged(helm: str, values: dict[str, Any]) -> None:
    mighty = {
        made["metadata"]["name"]
        for made in rendered(helm, values)
        for container in _containers(made)
        if container["securityContext"].get("privileged") or made["spec"]["template"]["spec"].get("hostPID")
    }
    assert mighty == {"trackbed-prepare"}


def test_every_object_is_named_as_part_of_its_release(helm: str) -> None:
    wanted = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/part-of": "trackbed"}
    for body in rendered(helm, EVERYTHING):
        if body["kind"] != "CustomResourceDefinition":
            assert wanted.items() <= body["metadata"]["labels"].items(), body["metadata"]["name"]


@pytest.mark.parametrize("name", ["controller", "webhook", "uninstall", "leave"])
def test_what_must_outlive_a_roll_out_runs_on_nodes_that_are_being_prepared(helm: str, name: str) -> None:
    kind = "Job" if name in {"uninstall", "leave"} else "Deployment"
    pod = only(rendered(helm), kind, f"trackbed-{name}")["spec"]["template"]["spec"]
    assert pod["tolerations"][:2] == [
        {"key": "trackbed.dev/preparing", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    ]


def test_the_controller_prefers_nodes_of_the_control_plane(helm: str) -> None:
    """Its token decides what root does on every host, and whoever is root on its node has it."""
    pods = {
        name: only(rendered(helm), "Deployment", f"trackbed-{name}")["spec"]["template"]["spec"]
        for name in ("controller", "webhook")
    }
    role = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    (wanted,) = pods["controller"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wanted == {"weight": 100, "preference": {"matchExpressions": [role]}}
    assert pods["controller"]["tolerations"][2:] == [role]
    assert "affinity" not in pods["webhook"]
    assert len(pods["webhook"]["tolerations"]) == 2


def test_tolerations_of_a_site_come_beside_ours(helm: str) -> None:
    pod = only(rendered(helm, EVERYTHING), "Deployment", "trackbed-controller")["spec"]["template"]["spec"]
    assert [toleration["key"] for toleration in pod["tolerations"]][2:] == ["nvidia.com/gpu"]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "site/role": "services"}


def test_the_controller_applies_the_stacks_that_are_named_and_no_others(helm: str) -> None:
    bodies = [
        [word for word in _command(rendered(helm, values)) if word.startswith("--stacks")]
        for values in (EVERYTHING, {})
    ]
    assert bodies == [["--stacks=sriov-operator,spiderpool"], []]


def test_the_webhook_answers_clients_of_the_named_authorities_only(helm: str) -> None:
    pod = only(rendered(helm, EVERYTHING), "Deployment", "trackbed-webhook")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "--client-ca=/etc/trackbed/clients/ca.crt" in container["command"]
    assert container["volumeMounts"] == [{"name": "clients", "mountPath": "/etc/trackbed/clients", "readOnly": True}]
    (volume,) = pod["volumes"]
    assert volume["configMap"] == {"name": "api-servers", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    both = rendered(helm, {"certManager": {"enabled": True}, "webhook": {"clientAuthorities": "api-servers"}})
    pod = only(both, "Deployment", "trackbed-webhook")["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["certificates", "clients"]
    assert "volumes" not in only(rendered(helm), "Deployment", "trackbed-webhook")["spec"]["template"]["spec"]


def _command(objects: list[Object]) -> list[str]:
    pod = only(objects, "Deployment", "trackbed-controller")["spec"]["template"]["spec"]
    return list(pod["containers"][0]["command"])


def test_a_proof_is_of_one_fabric_and_may_only_what_its_options_need(helm: str) -> None:
    made = rendered(helm, EVERYTHING)
    pod = only(made, "CronJob", "trackbed-proof")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    command = pod["containers"][0]["command"]
    assert command[:3] == ["trackbed", "prove", "--from-cluster=train"]
    assert {"--idle", "--image=localhost/proof:1", "--namespace=default", "--to-cluster", "--taint"} < set(command)
    rules = only(made, "ClusterRole", "trackbed-proof")["rules"]
    assert {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]} in rules
    untainted = rendered(helm, {"proof": {**EVERYTHING["proof"], "taint": False}})
    assert not any("nodes" in rule["resources"] for rule in only(untainted, "ClusterRole", "trackbed-proof")["rules"])
    assert only(untainted, "Role", "trackbed-proof")["metadata"]["namespace"] == "default"


@pytest.mark.parametrize("missing", ["fabric", "image"])
def test_a_proof_without_a_fabric_or_an_image_is_refused(helm: str, missing: str) -> None:
    done = run(helm, "template", RELEASE, str(CHART), values={"proof": {**EVERYTHING["proof"], missing: ""}})
    assert f"proof.{missing} is empty" in done.stderr


def test_a_node_selector_of_a_site_leaves_the_default_values_alone(helm: str) -> None:
    names = ("controller", "webhook")
    pods = [only(rendered(helm), "Deployment", f"trackbed-{name}")["spec"]["template"]["spec"] for name in names]
    assert [pod["nodeSelector"] for pod in pods] == [{"kubernetes.io/os": "linux"}] * 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"controller": {"replica": 3}}, "'replica' not allowed", id="a typo"),
        pytest.param({"webhok": {}}, "'webhok' not allowed", id="a typo at the top"),
        pytest.param({"webhook": {"url": "http://x:1"}}, "/webhook/url", id="no https"),
        pytest.param({"webhook": {"port": 0}}, "/webhook/port", id="no port"),
        pytest.param({"webhook": {"clientAuthorities": "A/b"}}, "/webhook/clientAuthorities", id="no name"),
        pytest.param({"image": {"digest": "sha256:12"}}, "/image/digest", id="no digest"),
    ],
)
def test_a_value_that_means_nothing_is_refused(helm: str, values: dict[str, Any], message: str) -> None:
    done = run(helm, "template", RELEASE, str(CHART), values=values)
    assert message in done.stderr


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
    assert not [body for body in made if body["kind"] == "Issuer"]
    assert only(made, "Certificate", "trackbed-webhook")["spec"]["issuerRef"] == issuer


def test_only_what_shall_stay_stays(helm: str) -> None:
    assert _uninstalls(helm, {}) == []
    assert _uninstalls(helm, {"uninstall": {"keepLocks": True}}) == ["--keep-locks"]
    assert _uninstalls(helm, {"crds": {"keep": True}}) == ["--keep-fabrics"]
    assert _uninstalls(helm, {"crds": {"enabled": False}}) == ["--keep-fabrics"]


def _uninstalls(helm: str, values: dict[str, Any]) -> list[str]:
    [container] = _containers(only(rendered(helm, values), "Job", "trackbed-uninstall"))
    return [word for word in container["command"] if word.startswith("--keep")]


def _containers(body: Object) -> list[Object]:
    return list(body.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []))
