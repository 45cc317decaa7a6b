"""Exec plugins of kubeconfigs, run as client-go runs them: they print a token, a client certificate, or both.

lightkube takes tokens alone, hides what a plugin says to the user, and runs it once for each request that begins.
Sources: KEP-541; client-go, plugin/pkg/client/auth/exec/exec.go and pkg/apis/clientauthentication/v1/types.go.
"""

import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
from collections.abc import AsyncGenerator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx2 as httpx
import msgspec
from lightkube.config.models import Cluster
from lightkube.core.exceptions import ConfigError

from trackbed.cluster.api.kubeconfig import ExecPlugin, ReachableCluster

_SECONDS: Final = 300.0
"""Limit for a plugin, in which a person can log in with a browser."""
_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of a cluster's extension whose content a plugin gets."""


class _Status(msgspec.Struct):
    token: str | None = None
    certificate: str | None = msgspec.field(name="clientCertificateData", default=None)
    key: str | None = msgspec.field(name="clientKeyData", default=None)


class _Credential(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    status: _Status


class PluginAuth(httpx.Auth):
    """Logs requests in: the plugin runs before the first one, and again when the server refuses what it gave."""

    def __init__(self, plugin: ExecPlugin, cluster: Cluster, context: ssl.SSLContext) -> None:
        """Set the plugin, the cluster that it is for, and the TLS context of connections that begin later."""
        self._plugin, self._cluster, self._context = plugin, cluster, context
        self._status: _Status | None = None
        self._lock = asyncio.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send a request with a login, and once more with another. Raises ConfigError, OSError."""
        status = self._status or await self._log_in(None)
        response = yield _add_token(request, status)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            if status.certificate:
                await response.aread()
                await response.extensions["network_stream"].aclose()  # it has shown the former certificate
            yield _add_token(request, await self._log_in(status))

    async def _log_in(self, refused: _Status | None) -> _Status:
        """Return a login that is not the refused one; of several requests one runs the plugin."""
        async with self._lock:
            if self._status is refused or self._status is None:
                status = await _run_plugin(self._plugin, self._cluster)
                _load_certificate(status, self._context, self._plugin.command)
                self._status = status
            return self._status


def _add_token(request: httpx.Request, status: _Status) -> httpx.Request:
    if status.token:
        request.headers["Authorization"] = f"Bearer {status.token}"
    return request


def _load_certificate(status: _Status, context: ssl.SSLContext, command: str) -> None:
    """Have a plugin's certificate shown by connections that begin from now on. Raises ConfigError."""
    if status.certificate and status.key:
        with tempfile.TemporaryDirectory(prefix="trackbed-") as folder:  # only its owner may enter
            path = Path(folder, "client.pem")
            path.write_text(f"{status.certificate}\n{status.key}\n")
            try:
                context.load_cert_chain(path)
            except OSError as error:  # which ssl.SSLError is
                raise ConfigError(f"the client certificate of {command} cannot be used: {error}") from error


async def _run_plugin(plugin: ExecPlugin, cluster: Cluster) -> _Status:
    """Return what a plugin printed. Raises ConfigError, which never has the output, and OSError."""
    has_terminal = bool(sys.stdin and sys.stdin.isatty())
    if plugin.interactiveMode == "Always" and not has_terminal:
        raise ConfigError(f"{plugin.command} asks questions and standard input is not a terminal: log in with it first")
    interactive = has_terminal and plugin.interactiveMode != "Never"
    question = _build_question(plugin, cluster, interactive=interactive)
    return _read_output(plugin, await _run(plugin, question, interactive=interactive))


def _build_question(plugin: ExecPlugin, cluster: Cluster, *, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provideClusterInfo:
        spec["cluster"] = _describe_cluster(cluster)
    return json.dumps({"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": spec})


def _describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as plugins get it, without what is not set."""
    authority = cluster.certificate_auth_data
    if not authority and cluster.certificate_auth:
        authority = base64.b64encode(Path(cluster.certificate_auth).read_bytes()).decode()
    described: dict[str, Any] = {"server": cluster.server, "insecure-skip-tls-verify": cluster.insecure}
    described["certificate-authority-data"] = authority
    if isinstance(cluster, ReachableCluster):
        described |= {"tls-server-name": cluster.tls_server_name, "proxy-url": cluster.proxy_url}
        configs = {entry.get("name"): entry.get("extension") for entry in cluster.extensions or ()}
        described["config"] = configs.get(_EXTENSION)
    return {name: value for name, value in described.items() if value}


async def _run(plugin: ExecPlugin, question: str, *, interactive: bool) -> bytes:
    """Return the standard output of a plugin, which has the terminal if it is interactive."""
    process = await _start(plugin, question, interactive=interactive)
    try:
        async with asyncio.timeout(_SECONDS):
            output, messages = await process.communicate()
    except TimeoutError as error:
        raise ConfigError(f"{plugin.command} did not end in {_SECONDS:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        words = (messages or b"").decode(errors="replace").strip()
        raise ConfigError(f"{plugin.command} ended with {process.returncode}{words and ': '}{words}")
    return output


async def _start(plugin: ExecPlugin, question: str, *, interactive: bool) -> asyncio.subprocess.Process:
    variables = {entry.name: entry.value for entry in plugin.env or ()}
    try:
        return await asyncio.create_subprocess_exec(
            *(plugin.command, *(plugin.args or ())),
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": question},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        hint = (plugin.installHint or "install it, or name its path in the kubeconfig").strip()
        raise ConfigError(f"{plugin.command} is not there: {hint}") from error


def _read_output(plugin: ExecPlugin, output: bytes) -> _Status:
    try:
        credential = msgspec.json.decode(output, type=_Credential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{plugin.command} printed no ExecCredential: {error}") from error
    status = credential.status
    if credential.api_version != plugin.apiVersion:
        raise ConfigError(f"{plugin.command} printed {credential.api_version}, the kubeconfig says {plugin.apiVersion}")
    if bool(status.certificate) != bool(status.key) or not (status.token or status.certificate):
        raise ConfigError(f"{plugin.command} printed no token, and no client certificate with its key")
    return status
