"""The API server and the user of a client, and its connections.

lightkube logs in by tokens and certificates, module exec_plugin by programs.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2 as httpx
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from trackbed.cluster.api.errors import ConfigurationError
from trackbed.cluster.api.exec_plugin import PluginAuth
from trackbed.cluster.api.handshake import close_unfinished_handshake
from trackbed.cluster.api.kubeconfig import PluginUser, ReachableCluster, load_kubeconfig

MAX_CONNECTIONS = 64
"""Limit of the connection pool."""

LOGIN_ERRORS = (ConfigError, OSError, ValueError, KeyError, TypeError)
"""Errors that are raised during a request if a token file or an exec plugin is missing, malformed or fails."""

_RequestHook = Callable[[httpx.Request], Awaitable[None]]


def load_configuration(kubeconfig: str | None = None, context: str | None = None) -> SingleConfig:
    """Return the API server and the user of a context, by default of the current context. Raises ConfigurationError.

    If `kubeconfig` is None, KUBECONFIG, ~/.kube/config and the pod's service account are tried in this order.
    """
    try:
        single = load_kubeconfig(kubeconfig).get(context)
    except (ConfigError, OSError, ValueError, KeyError, TypeError) as error:  # KeyError: a context names no cluster
        raise ConfigurationError(f"no usable kubeconfig: {error}; name one with --kubeconfig") from error
    if single is None:
        raise ConfigurationError("the kubeconfig has no current context; name a file with --kubeconfig")
    return single if single.user else single._replace(user=User())  # like kubectl: a context without user is anonymous


def open_pool(config: SingleConfig, timeout_seconds: float) -> httpx.AsyncClient:
    """Return a connection pool with the user's credentials. Raises ConfigurationError."""
    try:
        proxy, tls_name = _read_route(config.cluster)
        parameters = client_adapter.ConnectionParams(httpx.Timeout(timeout_seconds), proxy=proxy).httpx_params(config)
        if (
            isinstance(config.user, PluginUser)
            and config.user.exec
            and isinstance(parameters["auth"], client_adapter.ExecAuth)
        ):
            parameters["auth"] = PluginAuth(config.user.exec, config.cluster, parameters["verify"])
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
        mounts = None if proxy else _bypass_proxies(config.cluster.server)
        hooks: list[_RequestHook] = [close_unfinished_handshake, partial(_set_tls_name, tls_name)]
        return httpx.AsyncClient(**parameters, limits=limits, mounts=mounts, event_hooks={"request": hooks})
    except ImportError as error:
        raise ConfigurationError("a SOCKS proxy needs the Python package socksio: pip install socksio") from error
    except (ConfigError, OSError, ValueError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"this kubeconfig cannot be used: {error}") from error


def _read_route(cluster: Cluster) -> tuple[str | None, str | None]:
    """Return the proxy and the TLS name of a cluster."""
    return (cluster.proxy_url, cluster.tls_server_name) if isinstance(cluster, ReachableCluster) else (None, None)


async def _set_tls_name(name: str | None, request: httpx.Request) -> None:
    """Have the server's certificate checked for a name, sent as SNI; None is its address's. A request hook of httpx."""
    request.extensions["sni_hostname"] = name


def _bypass_proxies(server: str) -> dict[str, httpx.AsyncBaseTransport | None] | None:
    """Return the mounts of httpx that bypass HTTPS_PROXY for a server on loopback, like kubectl; None for others."""
    host = urlsplit(server).hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return None
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback else None
