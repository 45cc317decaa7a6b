"""Kubeconfig files: the API server and the user of a client.

lightkube reads the file and logs in (tokens, certificates, exec plugins).
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2 as httpx
import msgspec
import yaml
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from trackbed.cluster.api.errors import ConfigurationError

CONNECTIONS = 64

LOGIN_ERRORS = (ConfigError, OSError, ValueError, KeyError, TypeError)
"""Errors of lightkube during a request, for a token file or exec plugin that is missing, fails or is malformed."""

_FILE_ERRORS = (
    *(ConfigError, OSError, ValueError, msgspec.MsgspecError, yaml.YAMLError),
    *(AttributeError, KeyError, TypeError),  # lightkube raises these for a file that is YAML but no kubeconfig
)


def load_configuration(kubeconfig: str | None = None, context: str | None = None) -> SingleConfig:
    """Return one server and user: of the file, else of KUBECONFIG, ~/.kube/config, or the pod's service account.

    Raises ConfigurationError.
    """
    try:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
        single = config.get(context)
    except _FILE_ERRORS as error:
        raise ConfigurationError(f"no usable kubeconfig: {error}; name one with --kubeconfig") from error
    if single is None:
        raise ConfigurationError("the kubeconfig has no current context; name a file with --kubeconfig")
    return single


def open_pool(config: SingleConfig, timeout_seconds: float) -> httpx.AsyncClient:
    """Return a connection pool that logs in as the configuration says. Raises ConfigurationError."""
    try:
        parameters = client_adapter.ConnectionParams(timeout=httpx.Timeout(timeout_seconds)).httpx_params(config)
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        return httpx.AsyncClient(**parameters, limits=limits, mounts=_bypass_proxies(config.cluster.server))
    except (ConfigError, OSError, ValueError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"this kubeconfig cannot be used: {error}") from error


def _bypass_proxies(server: str) -> dict[str, httpx.AsyncBaseTransport | None] | None:
    """Return mounts that keep a server on loopback away from HTTPS_PROXY, as kubectl does: no proxy could reach it."""
    host = urlsplit(server).hostname or ""
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return None
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback else None
