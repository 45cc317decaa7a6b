"""Objects of any kind as plain values. The server's discovery finds kinds, so every CRD works without a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Self, TypeVar

import msgspec

from trackbed.cluster.api import discovery
from trackbed.cluster.api.client import APPLY, PATIENT, Client, Listing
from trackbed.cluster.api.configuration import load_configuration
from trackbed.cluster.api.discovery import ApiResource
from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import ApiResponse, Object, check_response, decode, parse_response

FIELD_MANAGER = "trackbed"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

_T = TypeVar("_T")


class _ServerVersion(msgspec.Struct, rename="camel"):
    """The used fields of /version."""

    git_version: str


class _Column(msgspec.Struct):
    name: str


class _Row(msgspec.Struct):
    cells: list[Any]


class _Table(Listing, frozen=True, rename="camel"):
    """A page of a list, as printed (meta.k8s.io/v1, Table)."""

    column_definitions: list[_Column] | None
    rows: list[_Row] | None


class DynamicClient:
    """A client with discovery: it names objects by kind instead of by path."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.namespace = client.config.namespace
        self._resources: dict[str, dict[str, ApiResource]] = {}
        self._kinds: dict[str, ApiResource] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.__aexit__()

    async def read_version(self) -> str:
        """Return the server's version, v1.36.3."""
        return (await self._get("/version", _ServerVersion, "version")).git_version

    async def create(self, body: Object, *, validation: str = "Strict", dry_run: bool = False) -> ApiResponse:
        """Create an object. Raises ApiRefusedError, in Strict also for unknown fields."""
        params = {"fieldValidation": validation, "fieldManager": FIELD_MANAGER, **_build_dry_run(dry_run=dry_run)}
        resource = await self._find_resource(body)
        path = resource.build_path(self._get_namespace(body))
        return parse_response(await self.client.request("POST", path, body, params), _name_object(body))

    async def apply(
        self,
        body: Object,
        *,
        manager: str = FIELD_MANAGER,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> ApiResponse:
        """Apply on the server: `manager` owns all fields of `body` afterwards; conflicts are refused unless forced."""
        path = await self._find_path(body) + subresource
        params = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            "fieldValidation": "Strict",
            **_build_dry_run(dry_run=dry_run),
        }
        response = await self.client.request("PATCH", path, body, params, {"Content-Type": APPLY})
        return parse_response(response, _name_object(body))

    async def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return an object. Raises ApiRefusedError, with status 404 where there is none."""
        resource = await self.find_resource(api_version, kind)
        return await self._get(resource.build_path(namespace or self.namespace, name), Object, f"{kind}/{name}")

    async def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object; None where there is none."""
        try:
            return await self.get(api_version, kind, name, namespace)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    async def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> AsyncIterator[Object]:
        """Yield all objects of a kind, of all namespaces unless one is named, each with apiVersion and kind.

        `selector` selects by labels, `fields` by fields, as kubectl's --selector and --field-selector.
        """
        path = (await self.find_resource(api_version, kind)).build_path(namespace)
        params = {"labelSelector": selector, "fieldSelector": fields}
        async for item in self.client.list(path, Object, **{name: value for name, value in params.items() if value}):
            yield {"apiVersion": api_version, "kind": kind, **item}

    async def read_table(self, api_version: str, kind: str) -> AsyncIterator[Object]:
        """Yield each object of a kind as `kubectl get` prints it: column -> cell. Only printed columns are sent.

        A cell without a value is None; dates are ages (5m).
        """
        path = (await self.find_resource(api_version, kind)).build_path(None)
        columns: Sequence[_Column] = ()
        async for page in self.client.iter_pages(path, _Table, {"includeObject": "None"}, accept=_TABLE):
            columns = page.column_definitions or columns
            for row in page.rows or ():
                yield dict(zip((column.name for column in columns), row.cells, strict=True))

    async def delete(self, body: Object) -> None:
        """Delete an object, and its dependents in the background; a missing object is ignored."""
        params = {"propagationPolicy": "Background"}
        response = await self.client.request("DELETE", await self._find_path(body), params=params)
        if response.status_code != HTTPStatus.NOT_FOUND:
            check_response(response, _name_object(body))

    async def find_resource(self, api_version: str, kind: str) -> ApiResource:
        """Return the resource of a kind; an unknown kind is looked up again. Raises UnknownKindError."""
        if kind not in self._resources.get(api_version, {}):
            self._resources[api_version] = await self._discover(api_version)
        try:
            return self._resources[api_version][kind]
        except KeyError as error:
            raise UnknownKindError(f"the server has no {kind} in {api_version}; install its CRD") from error

    async def find_kind(self, name: str) -> ApiResource:
        """Return the resource for a plural, singular, kind or Kind.group, as kubectl does. Raises UnknownKindError.

        Results are cached.
        """
        if name not in self._kinds:
            self._kinds[name] = await self._look_up(name)
        return self._kinds[name]

    async def _look_up(self, name: str) -> ApiResource:
        for base in ("/api", "/apis"):
            groups = await self._get(base, discovery.Groups, base, {"Accept": discovery.EVERYTHING})
            resource = discovery.find_kind(groups, name)
            if resource is not None:
                return resource
        raise UnknownKindError(f"the server serves nothing called {name}; its CRD comes with its operator")

    async def _discover(self, api_version: str) -> dict[str, ApiResource]:
        base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            version = await self._get(base, discovery.Version, api_version)
        except ApiRefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise UnknownKindError(f"the server has no {api_version}; install its CRDs") from error
            raise
        return discovery.index_kinds(version, api_version)

    async def _get(self, path: str, shape: type[_T], subject: str, headers: Mapping[str, str] | None = None) -> _T:
        response = await self.client.request("GET", path, headers=headers)
        check_response(response, subject)
        return decode(response.content, shape, subject)

    async def _find_resource(self, body: Object) -> ApiResource:
        return await self.find_resource(body["apiVersion"], body["kind"])

    async def _find_path(self, body: Object) -> str:
        return (await self._find_resource(body)).build_path(self._get_namespace(body), body["metadata"]["name"])

    def _get_namespace(self, body: Object) -> str:
        return body.get("metadata", {}).get("namespace") or self.namespace


def connect(kubeconfig: str | None = None, context: str | None = None) -> DynamicClient:
    """Return a patient client of the server that a kubeconfig names. Raises ConfigurationError."""
    return DynamicClient(Client(load_configuration(kubeconfig, context), PATIENT))


def _build_dry_run(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _name_object(body: Object) -> str:
    metadata = body.get("metadata", {})
    suffix = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body.get('kind')}/{metadata.get('name')}{suffix}"
