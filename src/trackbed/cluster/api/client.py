"""The client of an API server: typed requests by path, lists page by page, and streams of changes.

`dynamic.DynamicClient` adds objects of any kind, found by the server's discovery.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self, TypeVar

import httpx2 as httpx
import msgspec
from lightkube.config.kubeconfig import SingleConfig

from trackbed.cluster.api.configuration import LOGIN_ERRORS, load_configuration, open_pool
from trackbed.cluster.api.errors import ApiRefusedError, ConfigurationError, UnreachableError
from trackbed.cluster.api.metrics import API_REQUESTS
from trackbed.cluster.api.response import Object, check_response, decode, parse_response, read_retry_seconds

__all__ = ("PATIENT", "RECONCILER", "Client", "Listing", "Object", "ObjectList", "RequestPolicy", "connect")

JSON = "application/json"
MERGE = "application/merge-patch+json"
"""RFC 7396: null removes a field, lists are replaced whole."""
APPLY = "application/apply-patch+yaml"
PAGE = 500
"""Objects listed at once, as kubectl does."""
REQUEST_SECONDS = 8.0
"""Shorter than the rest of a lease after its deadline, so that no write of a former leader arrives late."""
STREAM_SECONDS = 360.0
"""A stream without a byte for so long is dead: a server ends one after `timeoutSeconds`, and sends bookmarks before."""
_UNDECLARED = "field not declared in schema"
_OLDER = "; the cluster's CRDs are older than this program: apply charts/trackbed/files/crds.yaml of its version"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How long a request may take, and how often it is sent to a busy server (429)."""

    timeout_seconds: float = REQUEST_SECONDS
    tries: int = 1
    pause_seconds: float = 0.0
    """Pause before each request, to limit the rate."""


RECONCILER = RequestPolicy()
"""For programs that reconcile: a failed request is repeated by the next pass."""
PATIENT = RequestPolicy(timeout_seconds=30.0, tries=8)
"""For commands: a request is repeated after the pause that a busy server requests, usually 1 s."""


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a page."""

    resource_version: str = ""
    next_page: str | None = msgspec.field(default=None, name="continue")


class Listing(msgspec.Struct, frozen=True):
    """A page of a list; subclasses have its items."""

    metadata: ListMetadata


class ObjectList(Listing, frozen=True):
    """A page of objects; Go writes an empty list as null."""

    items: list[msgspec.Raw] | None


_Listing = TypeVar("_Listing", bound=Listing)


class Client:
    """A client of one API server, as one user."""

    def __init__(self, config: SingleConfig, policy: RequestPolicy = RECONCILER) -> None:
        self.config = config
        self._policy = policy
        self._http = open_pool(config, policy.timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str, shape: type[_T], **params: str) -> _T:
        """Read the object at a path as `shape`. Raises KubeError."""
        response = await self.request("GET", path, params=params)
        check_response(response, path)
        return decode(response.content, shape, path)

    async def create(self, path: str, body: Object) -> Object:
        """Create an object in a collection; return it as stored."""
        return parse_response(await self.request("POST", path, body), path).body

    async def merge(self, path: str, change: Object) -> Object:
        """Change some fields; with metadata.resourceVersion among them, a concurrent write is a conflict (409)."""
        return parse_response(await self.request("PATCH", path, change, headers={"Content-Type": MERGE}), path).body

    async def apply(self, path: str, body: Object, manager: str, *, force: bool = True) -> Object:
        """Apply on the server; unlike other writes this refuses fields that the kind does not have."""
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        response = await self.request("PATCH", path, body, params, {"Content-Type": APPLY})
        try:
            return parse_response(response, path).body
        except ApiRefusedError as error:
            if _UNDECLARED not in error.message:
                raise
            raise ApiRefusedError(error.status, error.reason, f"{error.message}{_OLDER}", error.subject) from error

    async def delete(self, path: str) -> None:
        """Delete an object. Raises ApiRefusedError, with status 404 where there is none."""
        check_response(await self.request("DELETE", path), path)

    async def list(self, path: str, shape: type[_T], **params: str) -> AsyncIterator[_T]:
        """Yield all objects of a collection as `shape`."""
        async for page in self.iter_pages(path, ObjectList, params):
            for raw in page.items or ():
                yield decode(raw, shape, path)

    async def iter_pages(
        self, path: str, shape: type[_Listing], params: Mapping[str, str], accept: str = JSON
    ) -> AsyncIterator[_Listing]:
        """Yield a collection page by page; `params` select from it."""
        next_page = ""
        while True:
            paging = {"limit": str(PAGE), **({"continue": next_page} if next_page else {})}
            response = await self.request("GET", path, params={**paging, **params}, headers={"Accept": accept})
            check_response(response, path)
            page = decode(response.content, shape, path)
            yield page
            next_page = page.metadata.next_page or ""
            if not next_page:
                return

    async def iter_lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the lines of a stream until it ends; only a line feed ends a line, not other Unicode breaks (U+0085).

        Raises ApiRefusedError, and UnreachableError where the stream breaks or is silent for too long.
        """
        timeout = httpx.Timeout(self._policy.timeout_seconds, read=STREAM_SECONDS)
        try:
            async with self._http.stream("GET", path, params=params, timeout=timeout) as response:
                API_REQUESTS.labels("WATCH", response.status_code).inc()
                if not response.is_success:
                    await response.aread()
                    check_response(response, path)
                tail = b""
                async for chunk in response.aiter_bytes():
                    *lines, tail = (tail + chunk).split(b"\n")
                    for line in lines:
                        yield line
        except httpx.HTTPError as error:
            API_REQUESTS.labels("WATCH", "none").inc()
            raise UnreachableError(f"the stream of {path} broke: {error!r}") from error
        except LOGIN_ERRORS as error:
            raise ConfigurationError(f"cannot log in as this kubeconfig says: {error}") from error

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request, again while the server is busy. Raises UnreachableError, ConfigurationError."""
        request = self._http.build_request(
            method,
            path,
            content=None if body is None else msgspec.json.encode(body),
            params=params,
            headers={"Content-Type": JSON, "Accept": JSON, **(headers or {})},
        )
        for _ in range(self._policy.tries - 1):
            response = await self._send(request)
            if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                return response
            await asyncio.sleep(read_retry_seconds(response))
        return await self._send(request)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        if self._policy.pause_seconds:
            await asyncio.sleep(self._policy.pause_seconds)
        try:
            response = await self._http.send(request)
        except httpx.HTTPError as error:
            API_REQUESTS.labels(request.method, "none").inc()
            raise UnreachableError(f"no answer from {request.url}: {str(error) or repr(error)}") from error
        except LOGIN_ERRORS as error:
            raise ConfigurationError(f"cannot log in as this kubeconfig says: {error}") from error
        API_REQUESTS.labels(request.method, response.status_code).inc()
        return response


def connect(kubeconfig: str | None = None, context: str | None = None, policy: RequestPolicy = RECONCILER) -> Client:
    """Return a client of the server that a kubeconfig names. Raises ConfigurationError."""
    return Client(load_configuration(kubeconfig, context), policy)
