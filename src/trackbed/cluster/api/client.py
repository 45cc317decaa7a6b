"""Client of an API server: typed requests by path, lists page by page, and streams of changes.

`dynamic.DynamicClient` adds objects of any kind, found by the server's discovery.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Self, TypeVar

import httpx2 as httpx
import msgspec
from lightkube.config.kubeconfig import SingleConfig

from trackbed.cluster.api.configuration import LOGIN_ERRORS, load_configuration, open_pool
from trackbed.cluster.api.errors import ApiRefusedError, ConfigurationError, UnreachableError
from trackbed.cluster.api.metrics import API_REQUESTS
from trackbed.cluster.api.response import Object, check_response, decode_json, parse_response, read_retry_seconds

JSON = "application/json"
"""Content type of an object."""
MERGE_PATCH = "application/merge-patch+json"
"""Content type of a JSON merge patch (RFC 7396): null removes a field, and a list is replaced as a whole."""
APPLY_PATCH = "application/apply-patch+yaml"
"""Content type of server-side apply: JSON, as `encode_body` writes it, is valid YAML."""
PAGE_SIZE = 500
"""Objects in one page of a list, the same as in kubectl."""
REQUEST_SECONDS = 8.0
"""Timeout of a request: at most lease.LEASE_SECONDS - lease.DEADLINE_SECONDS, so that no former leader writes late."""
STREAM_SECONDS = 360.0
"""Silence after which a watch stream counts as broken; a working server sends a bookmark about every minute."""
_UNDECLARED_FIELD = "field not declared in schema"
_OLD_CRDS_HINT = (
    "; the cluster's CRDs are older than this program: apply charts/trackbed/files/crds.yaml of its version"
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Timeout of a request, and the number of attempts while the server is busy (429)."""

    timeout_seconds: float = REQUEST_SECONDS
    attempts: int = 1
    pause_seconds: float = 0.0
    """Pause before each request, to limit the rate."""


RECONCILER = RequestPolicy()
"""Policy of programs that reconcile: the next pass repeats a failed request."""
PERSISTENT = RequestPolicy(attempts=8)
"""Policy of programs that write once: a request is repeated after the busy server's Retry-After, usually 1 s."""
PATIENT = replace(PERSISTENT, timeout_seconds=30.0)
"""Policy of commands, which wait longer for a slow server."""


_NO_YAML = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")
"""Characters, as UTF-8, that YAML 1.2 (5.1, 5.4) does not admit or folds, and JSON has unescaped."""


def encode_body(body: Object) -> bytes:
    """Return an object as JSON that is valid YAML too, since the server reads an apply as YAML.

    Otherwise one control character, which any agent may write into a status that we quote, would make it refuse ours.
    """
    return _NO_YAML.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), msgspec.json.encode(body))


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a page of a list (meta/v1, ListMeta)."""

    resource_version: str = ""
    next_page: str | None = msgspec.field(default=None, name="continue")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list; subclasses add its items."""

    metadata: ListMetadata


class ObjectPage(ListPage, frozen=True):
    """A page of objects, not decoded yet; a server written in Go sends null for an empty list."""

    items: list[msgspec.Raw] | None


_Page = TypeVar("_Page", bound=ListPage)


class Client:
    """Client of an API server, with the credentials of one user."""

    def __init__(self, config: SingleConfig, policy: RequestPolicy = RECONCILER) -> None:
        self.config = config
        self.policy = policy
        self._http = open_pool(config, policy.timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str, model: type[_T]) -> _T:
        """Return the object at a path as `model`. Raises KubeError."""
        response = await self.request("GET", path)
        check_response(response, path)
        return decode_json(response.content, model, path)

    async def find(self, path: str, model: type[_T]) -> _T | None:
        """Return the object at a path as `model`; None if there is none. Raises KubeError."""
        try:
            return await self.get(path, model)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    async def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at a path; return the stored object. Raises KubeError."""
        return parse_response(await self.request("POST", path, body), path).body

    async def merge(self, path: str, change: Object) -> Object:
        """Apply a JSON merge patch to the object at a path; return the stored object. Raises KubeError.

        If `change` has metadata.resourceVersion, the server refuses it once the object has changed since (409).
        """
        return parse_response(
            await self.request("PATCH", path, change, headers={"Content-Type": MERGE_PATCH}), path
        ).body

    async def apply(self, path: str, body: Object, manager: str, *, force: bool = True) -> Object:
        """Write an object by server-side apply; return the stored object. `manager` is the field manager.

        Raises KubeError, also for an unknown field.
        """
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        response = await self.request("PATCH", path, body, params, {"Content-Type": APPLY_PATCH})
        try:
            return parse_response(response, path).body
        except ApiRefusedError as error:
            if _UNDECLARED_FIELD not in error.message:
                raise
            raise ApiRefusedError(
                error.status, error.reason, f"{error.message}{_OLD_CRDS_HINT}", error.target
            ) from error

    async def delete(self, path: str) -> bool:
        """Delete the object at a path; return whether it existed. Raises KubeError."""
        response = await self.request("DELETE", path)
        if response.status_code == HTTPStatus.NOT_FOUND:
            return False
        check_response(response, path)
        return True

    async def delete_all(self, path: str, labels: str) -> None:
        """Delete the objects of a collection that have these labels. Raises KubeError."""
        params = {"labelSelector": labels, "propagationPolicy": "Background"}
        check_response(await self.request("DELETE", path, params=params), path)

    async def iter_objects(self, path: str, model: type[_T], **params: str) -> AsyncIterator[_T]:
        """Yield the objects of a collection as `model`; `params` are query parameters such as labelSelector.

        Raises KubeError.
        """
        async for page in self.iter_pages(path, ObjectPage, params):
            for raw in page.items or ():
                yield decode_json(raw, model, path)

    async def iter_pages(
        self, path: str, model: type[_Page], params: Mapping[str, str], accept: str = JSON
    ) -> AsyncIterator[_Page]:
        """Yield the pages of a collection as `model`; `params` are query parameters. Raises KubeError."""
        next_page = ""
        while True:
            paging = {"limit": str(PAGE_SIZE), **({"continue": next_page} if next_page else {})}
            response = await self.request("GET", path, params={**paging, **params}, headers={"Accept": accept})
            check_response(response, path)
            page = decode_json(response.content, model, path)
            yield page
            next_page = page.metadata.next_page or ""
            if not next_page:
                return

    async def iter_lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch stream until it ends, without line feeds.

        Only a line feed ends a line; other Unicode line breaks, such as U+0085, may occur in strings.

        Raises ApiRefusedError, and UnreachableError if the stream breaks or is silent for STREAM_SECONDS.
        """
        timeout = httpx.Timeout(self.policy.timeout_seconds, read=STREAM_SECONDS)
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
        """Send a request; return the response, whatever its status. While the server is busy (429), retry.

        Raises UnreachableError, ConfigurationError.
        """
        request = self._http.build_request(
            method,
            path,
            content=None if body is None else encode_body(body),
            params=params,
            headers={"Content-Type": JSON, "Accept": JSON, **(headers or {})},
        )
        for _ in range(self.policy.attempts - 1):
            response = await self._send_request(request)
            if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                return response
            await asyncio.sleep(read_retry_seconds(response))
        return await self._send_request(request)

    async def _send_request(self, request: httpx.Request) -> httpx.Response:
        if self.policy.pause_seconds:
            await asyncio.sleep(self.policy.pause_seconds)
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
    """Return a client of the API server in a kubeconfig. Raises ConfigurationError."""
    return Client(load_configuration(kubeconfig, context), policy)
