"""An API server for programs that stay: requests side by side, and streams of what changes.

The command line's client is `api.client`. This one names objects by path, decodes only the fields that its user reads,
and never waits inside: who reconciles comes again by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Self, TypeVar

import httpx2 as httpx
import msgspec
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError

from trackbed.cluster.api.answer import Object, read
from trackbed.cluster.api.client import configured
from trackbed.cluster.api.errors import ConfigurationError, KubeError, RefusedError, UnreachableError
from trackbed.cluster.api.metrics import API_REQUESTS

_T = TypeVar("_T")

MERGE = "application/merge-patch+json"
"""RFC 7396: what is null goes, lists are replaced whole."""
APPLY = "application/apply-patch+yaml"
REQUEST_SECONDS = 8.0
"""Shorter than a lease lasts after its last renewal, so no write of a former leader comes late."""
QUIET_SECONDS = 360.0
"""A stream without a byte for so long is dead: a server ends one after `timeoutSeconds`, and sends bookmarks before."""
CONNECTIONS = 64
_UNDECLARED = "field not declared in schema"
_OLDER = "; the cluster's CRDs are older than this program: apply charts/trackbed/files/crds.yaml of its version"


class Live:
    """One API server, seen as one user; `config` says how it is reached."""

    def __init__(self, config: SingleConfig) -> None:
        self.config = config
        try:
            parameters = client_adapter.ConnectionParams(timeout=httpx.Timeout(REQUEST_SECONDS)).httpx_params(config)
            limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
            self._http = httpx.AsyncClient(**parameters, limits=limits)
        except (ConfigError, OSError, ValueError, httpx.InvalidURL) as error:
            raise ConfigurationError(f"this kubeconfig cannot be used: {error}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str, shape: type[_T], **params: str) -> _T:
        """What is at a path, as `shape`. Raises RefusedError, UnreachableError; KubeError if it is something else."""
        told = await self._ask("GET", path, params=params)
        if not told.is_success:
            read(told, path)
        return decoded(told.content, shape, path)

    async def create(self, path: str, one: Object) -> Object:
        """Create an object in a collection; the object as stored."""
        return await self._write("POST", path, one, "application/json")

    async def merge(self, path: str, change: Object) -> Object:
        """Change some fields; with metadata.resourceVersion among them, only if nobody wrote it meanwhile (409)."""
        return await self._write("PATCH", path, change, MERGE)

    async def apply(self, path: str, one: Object, manager: str, *, force: bool = True) -> Object:
        """Server-side apply, which refuses fields that the kind does not have, as no other way of writing does."""
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        try:
            return await self._write("PATCH", path, one, APPLY, params)
        except RefusedError as error:
            if _UNDECLARED not in error.message:
                raise
            raise RefusedError(error.status, error.reason, f"{error.message}{_OLDER}", error.what) from error

    async def delete(self, path: str) -> None:
        """Delete an object. RefusedError with status 404 where there is none."""
        read(await self._ask("DELETE", path), path)

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a stream until it ends; a line feed alone ends a line, not what else Unicode has (U+0085).

        Raises RefusedError, and UnreachableError where the stream breaks or says nothing for too long.
        """
        timeout = httpx.Timeout(REQUEST_SECONDS, read=QUIET_SECONDS)
        try:
            async with self._http.stream("GET", path, params=params, timeout=timeout) as told:
                API_REQUESTS.labels("WATCH", told.status_code).inc()
                if not told.is_success:
                    await told.aread()
                    read(told, path)
                rest = b""
                async for chunk in told.aiter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
        except httpx.HTTPError as error:
            API_REQUESTS.labels("WATCH", "none").inc()
            raise UnreachableError(f"the stream of {path} broke: {error!r}") from error

    async def _write(
        self, method: str, path: str, body: Object, kind: str, params: Mapping[str, str] | None = None
    ) -> Object:
        return read(await self._ask(method, path, msgspec.json.encode(body), kind, params), path).body

    async def _ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        kind: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        headers = {"Content-Type": kind, "Accept": "application/json"}
        try:
            told = await self._http.request(method, path, content=content, headers=headers, params=params)
        except httpx.HTTPError as error:
            API_REQUESTS.labels(method, "none").inc()
            raise UnreachableError(f"no answer about {path}: {error!r}") from error
        except (ConfigError, OSError, ValueError) as error:
            raise ConfigurationError(f"cannot log in as this kubeconfig says: {error}") from error
        API_REQUESTS.labels(method, told.status_code).inc()
        return told


def decoded(raw: bytes, shape: type[_T], what: str) -> _T:
    """JSON as `shape`. Raises KubeError."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.MsgspecError as error:
        raise KubeError(f"{what}: the server's answer is not what Kubernetes answers: {error}") from error


def connect(kubeconfig: str | None = None, context: str | None = None) -> Live:
    """The server that a kubeconfig names, as `api.client.connect`."""
    return Live(configured(kubeconfig, context))
