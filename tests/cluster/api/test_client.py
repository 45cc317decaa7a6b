"""The client against a real API server: what it creates, what it is refused, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.node import KUBERNETES_SERVICE

from trackbed.cluster.api.errors import ApiRefusedError, ConfigurationError, UnknownKindError, UnreachableError
from trackbed.cluster.api.response import Object


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        yield blocking_client


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_an_object_that_was_created_can_be_read_and_deleted_twice(client: BlockingClient) -> None:
    body = config_map("created", a="1")
    assert client.create(body).body["metadata"]["uid"]
    assert client.get("v1", "ConfigMap", "created")["data"] == {"a": "1"}
    client.delete(body)
    client.delete(body)
    with pytest.raises(ApiRefusedError) as caught:
        client.get("v1", "ConfigMap", "created")
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_a_dry_run_leaves_nothing_behind(client: BlockingClient) -> None:
    client.create(config_map("tried"), dry_run=True)
    assert "tried" not in {body["metadata"]["name"] for body in client.list("v1", "ConfigMap", "default")}


def test_an_unknown_field_is_refused_with_the_object_and_the_field(client: BlockingClient) -> None:
    with pytest.raises(ApiRefusedError, match=r'ConfigMap/spoiled: .* unknown field "dataa"'):
        client.create(config_map("spoiled") | {"dataa": {}})


def test_the_same_name_twice_is_a_conflict(client: BlockingClient) -> None:
    body = config_map("twice")
    client.create(body)
    with pytest.raises(ApiRefusedError) as caught:
        client.create(body)
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")
    client.delete(body)


def test_a_warning_of_the_server_comes_with_its_answer(client: BlockingClient) -> None:
    pod = {"name": "main", "image": "example.org/x"}
    doubled = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    spec = {"containers": [{**pod, "env": doubled}], "automountServiceAccountToken": False}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "warned"}}
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    answer = client.create({**body, "spec": {"template": template}}, dry_run=True)
    assert [text for text in answer.warnings if "env" in text]


def test_a_kind_that_nobody_serves_is_told_as_such(client: BlockingClient) -> None:
    with pytest.raises(UnknownKindError, match="no Pot in v1; install its CRD"):
        client.create({"apiVersion": "v1", "kind": "Pot", "metadata": {"name": "x"}})
    with pytest.raises(UnknownKindError, match=r"no example\.org/v1"):
        client.get("example.org/v1", "Rail", "x")


def test_applying_twice_changes_nothing_and_another_managers_field_is_a_conflict(client: BlockingClient) -> None:
    first = client.apply(config_map("applied", a="1")).body["metadata"]["resourceVersion"]
    assert client.apply(config_map("applied", a="1")).body["metadata"]["resourceVersion"] == first
    with pytest.raises(ApiRefusedError) as caught:
        client.apply(config_map("applied", a="2"), manager="somebody-else")
    assert caught.value.reason == "Conflict"
    assert client.apply(config_map("applied", a="2"), manager="somebody-else", force=True).body["data"] == {"a": "2"}


def test_a_long_list_comes_page_by_page(client: BlockingClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trackbed.cluster.api.client.PAGE_SIZE", 3)
    names = {f"page-{number}" for number in range(8)}
    for name in names:
        client.create(config_map(name))
    bodies = list(client.list("v1", "ConfigMap", "default"))
    assert names <= {body["metadata"]["name"] for body in bodies}
    assert {body["kind"] for body in bodies} == {"ConfigMap"}


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def read_version(kubeconfig: Path, folder: Path, tls_name: str) -> str:
    """Return the server's version, whose certificate must have this name."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["tls-server-name"] = tls_name
    (folder / "config").write_text(yaml.safe_dump(config))
    with connect(str(folder / "config")) as client:
        return client.read_version()


def test_the_certificate_may_have_another_name_than_the_address(api_server: Path, tmp_path: Path) -> None:
    assert read_version(api_server, tmp_path, KUBERNETES_SERVICE).startswith("v")
    with pytest.raises(UnreachableError, match=r"certificate is not valid for 'example\.org'"):
        read_version(api_server, tmp_path, "example.org")


def test_a_server_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    with (
        connect(str(tmp_path / "config")) as client,
        pytest.raises(UnreachableError, match="no answer from https://127"),
    ):
        client.get("v1", "Pod", "x")


@pytest.mark.parametrize(
    "text", ["", "- a list", "kind: Config", "{broken", KUBECONFIG.replace("current-context: x", "current-context: y")]
)
def test_a_kubeconfig_that_is_none_is_told_as_such(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigurationError, match="kubeconfig"):
        connect(str(tmp_path / "config"))


def test_a_kubeconfig_that_is_missing_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--kubeconfig"):
        connect(str(tmp_path / "none"))
