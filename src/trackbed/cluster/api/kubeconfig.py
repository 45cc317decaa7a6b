"""Kubeconfig files as kubectl reads them: several files in KUBECONFIG, relative paths, proxies, plugins' wishes.

lightkube reads one file, resolves only some paths, and knows neither what a plugin wants nor the proxy and the TLS name
of a cluster.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, to_mapping
from lightkube.config.models import Cluster, User, UserExec
from lightkube.core.exceptions import ConfigError

_CLUSTER_PATHS: Final = ("certificate_auth",)
_USER_PATHS: Final = ("client_cert", "client_key", "token_file")
_FORMAT_ERRORS: Final = (
    *(ValueError, msgspec.MsgspecError, yaml.YAMLError, RecursionError),
    *(AttributeError, KeyError, TypeError),  # lightkube raises these for YAML that is not a kubeconfig
)


class ReachableCluster(Cluster, omit_defaults=True):
    """A cluster, and how its API server is reached (client-go, clientcmd/api/v1/types.go)."""

    tls_server_name: str | None = msgspec.field(name="tls-server-name", default=None)
    """Name that the server's certificate has to have, in place of its address's; also sent as SNI."""
    proxy_url: str | None = msgspec.field(name="proxy-url", default=None)
    """Proxy to the server, which goes before those of the environment."""
    extensions: list[dict[str, Any]] | None = None
    """What is there for other programs, each with a name."""


class ExecPlugin(UserExec, omit_defaults=True):
    """A program that logs in, and what it wants (same file of client-go)."""

    interactiveMode: str | None = None  # noqa: N815 - as lightkube names the others
    """Never, IfAvailable (as None) or Always: whether it gets the terminal."""
    provideClusterInfo: bool | None = None  # noqa: N815 - as above


class PluginUser(User, omit_defaults=True):
    """A user who may log in by a plugin."""

    exec: ExecPlugin | None = None


_Entry = TypeVar("_Entry", ReachableCluster, PluginUser)


def load_kubeconfig(path: str | None) -> KubeConfig:
    """Return the kubeconfig at a path; by default of KUBECONFIG, then ~/.kube/config, then the pod's service account.

    Of several files in KUBECONFIG the first that has a name or a current context wins, and absent ones are passed over
    (client-go, clientcmd/loader.go). Raises ConfigError, OSError, and KeyError for a service account without variables.
    """
    names = [path] if path else [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    names = names or [DEFAULT_KUBECONFIG]
    present = [name for name in names if Path(name).expanduser().is_file()]
    if not present and not path:
        with suppress(ConfigError):
            return KubeConfig.from_service_account()
    return _merge([_read_file(Path(name).expanduser()) for name in present or names])


def _read_file(path: Path) -> KubeConfig:
    """Return a kubeconfig, which may leave out lists or have null for them, as kubectl writes it.

    Raises ConfigError, which names the file, and OSError.
    """
    try:
        return _parse(path.read_text(), path.parent.absolute())
    except _FORMAT_ERRORS as error:
        raise ConfigError(f"{path}: {error}") from error


def _parse(text: str, folder: Path) -> KubeConfig:
    content = yaml.safe_load(text)
    if not isinstance(content, dict):
        raise TypeError("no mapping")
    lists = {name: content.get(name) or [] for name in ("clusters", "contexts", "users")}
    config = KubeConfig.from_dict({**content, **lists})
    clusters = to_mapping(lists["clusters"], "cluster", ReachableCluster)
    config.clusters |= {name: _resolve_paths(entry, folder, _CLUSTER_PATHS) for name, entry in clusters.items()}
    users = to_mapping(lists["users"], "user", PluginUser)
    config.users |= {name: _resolve_user(entry, folder) for name, entry in users.items()}
    return config


def _merge(configs: list[KubeConfig]) -> KubeConfig:
    merged = KubeConfig(clusters={}, contexts={})
    for config in configs:
        merged = KubeConfig(
            clusters=config.clusters | merged.clusters,
            contexts=config.contexts | merged.contexts,
            users=config.users | merged.users,
            current_context=merged.current_context or config.current_context or None,
        )
    return merged


def _resolve_paths(entry: _Entry, folder: Path, fields: tuple[str, ...]) -> _Entry:
    """Return a cluster or user whose paths do not depend on the kubeconfig's folder."""
    paths = {field: str(folder / path) for field in fields if (path := getattr(entry, field))}
    return msgspec.structs.replace(entry, **paths)


def _resolve_user(user: PluginUser, folder: Path) -> PluginUser:
    user = _resolve_paths(user, folder, _USER_PATHS)
    if not user.exec or "/" not in user.exec.command:
        return user
    return msgspec.structs.replace(
        user, exec=msgspec.structs.replace(user.exec, command=str(folder / user.exec.command))
    )
