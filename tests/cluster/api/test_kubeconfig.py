"""Kubeconfigs as kubectl reads them: in several files, with paths beside them, with plugins that log in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trackbed.cluster.api.configuration import load_configuration
from trackbed.cluster.api.errors import ConfigurationError
from trackbed.cluster.api.kubeconfig import load_kubeconfig


def write(path: Path, name: str, *, user: dict[str, Any] | None = None, server: str = "", current: bool = True) -> Path:
    """Write a kubeconfig whose cluster, user and context have one name."""
    cluster = {"server": server or f"https://{name}", "certificate-authority": "ca.crt"}
    config = {
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user or {"token": name}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name if current else "",
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config))
    return path


def set_files(monkeypatch: pytest.MonkeyPatch, *paths: Path | str) -> None:
    """Name these files in KUBECONFIG."""
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))


def test_the_first_of_several_files_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = write(tmp_path / "1", "a", server="https://first", current=False)
    set_files(monkeypatch, tmp_path / "absent", nameless, write(tmp_path / "2", "b"), "", write(tmp_path / "3", "a"))
    assert load_configuration().cluster.server == "https://b"
    assert load_configuration(context="a").cluster.server == "https://first"
    with pytest.raises(ConfigurationError, match="Context 'c' not found"):
        load_configuration(context="c")


@pytest.mark.parametrize("text", ["kind: Config", "{clusters: null, contexts: null, users: null}"])
def test_a_file_without_clusters_leaves_the_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "empty").write_text(text)
    set_files(monkeypatch, tmp_path / "empty", write(tmp_path / "1", "a"))
    assert load_configuration().cluster.server == "https://a"


def test_a_context_may_have_its_user_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    userless = write(tmp_path / "1", "a")
    content = json.loads(userless.read_text())
    userless.write_text(json.dumps({**content, "users": None}))
    (tmp_path / "2").write_text(json.dumps({"users": content["users"]}))
    set_files(monkeypatch, userless, tmp_path / "2")
    user = load_configuration().user
    assert user
    assert user.token == content["users"][0]["user"]["token"]


def test_paths_are_beside_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"client-certificate": "pki/c.crt", "client-key": "/keys/c.key", "tokenFile": "token"}
    write(tmp_path / "one" / "config", "a")
    write(tmp_path / "two" / "config", "b", user=user)
    monkeypatch.chdir(tmp_path)
    set_files(monkeypatch, "one/config", tmp_path / "two" / "config")
    config = load_kubeconfig(None)
    assert config.clusters["a"].certificate_auth == f"{tmp_path}/one/ca.crt"
    second = config.users["b"]
    assert (second.client_cert, second.client_key) == (f"{tmp_path}/two/pki/c.crt", "/keys/c.key")
    assert second.token_file == f"{tmp_path}/two/token"


def test_a_named_file_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_files(monkeypatch, write(tmp_path / "1", "a"))
    assert load_configuration(str(write(tmp_path / "2", "b"))).cluster.server == "https://b"


def test_where_no_file_is_there_the_first_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_files(monkeypatch, tmp_path / "first", tmp_path / "second")
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/first"):
        load_configuration()


def test_in_a_pod_without_a_file_its_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    account = load_kubeconfig(str(write(tmp_path / "account", "pod")))
    monkeypatch.setattr("trackbed.cluster.api.kubeconfig.KubeConfig.from_service_account", lambda: account)
    assert load_configuration().cluster.server == "https://pod"
    write(tmp_path / ".kube" / "config", "own")
    assert load_configuration().cluster.server == "https://own"


@pytest.mark.parametrize(("command", "path"), [("bin/login", "{}/bin/login"), ("login", "login"), ("/login", "/login")])
def test_a_plugin_is_beside_the_file_or_on_the_path(tmp_path: Path, command: str, path: str) -> None:
    plugin: dict[str, Any] = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    plugin |= dict.fromkeys(("args", "env", "installHint", "interactiveMode", "provideClusterInfo"))
    user = load_configuration(str(write(tmp_path / "1", "a", user={"exec": plugin}))).user
    assert user
    assert user.exec
    assert user.exec.command == path.format(tmp_path)


@pytest.mark.parametrize(
    "text", ["- a", "{broken", "clusters: [1]", "users: [{name: u}]", "clusters: x", "[" * 5000, "\xff"]
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "2").write_bytes(text.encode("latin-1"))
    set_files(monkeypatch, write(tmp_path / "1", "a"), tmp_path / "2")
    with pytest.raises(ConfigurationError, match=f"no usable kubeconfig: {tmp_path}/2: "):
        load_configuration()


@pytest.mark.parametrize("context", [["a"], {"a": 1}, 3, "c"])
def test_a_context_may_be_called_anything(tmp_path: Path, context: object) -> None:
    path = write(tmp_path / "1", "a")
    path.write_text(json.dumps({**json.loads(path.read_text()), "current-context": context}))
    with pytest.raises(ConfigurationError, match="no usable kubeconfig"):
        load_configuration(str(path))
