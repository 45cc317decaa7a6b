"""Client for objects of any kind, as dictionaries; the paths come from the server's discovery, also for CRDs."""

from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Self, TypeVar

import msgspec

from trackbed.cluster.api import discovery
from trackbed.cluster.api.client import APPLY_PATCH, PATIENT, Client, ListPage, RequestPolicy
from trackbed.cluster.api.configuration import load_configuration
from trackbed.cluster.api.discovery import ApiResource
from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import ApiResponse, Object, check_response, decode_json, parse_response

FIELD_MANAGER = "trackbed"
_DRY_RUN = {"dryRun": "All"}
_ACCEPT_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
"""Accept header that requests the columns of `kubectl get` instead of objects."""

_T = TypeVar("_T")


class _ServerVersion(msgspec.Struct, rename="camel"):
    """The response to /version."""

    git_version: str


class _Column(msgspec.Struct):
    """A column of a table."""

    name: str


class _Row(msgspec.Struct):
    """A row of a table."""

    cells: list[Any]


class _Table(ListPage, frozen=True, rename="camel"):
    """A page of a list as a table (meta/v1, Table)."""

    column_definitions: list[_Column] | None
    rows: list[_Row] | None


class DynamicClient:
    """Client that addresses objects by kind instead of by path."""

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
        """Return the server's version, such as v1.36.3."""
        return (await self._get_model("/version", _ServerVersion, "version")).git_version

    async def create(self, body: Object, *, validation: str = "Strict", dry_run: bool = False) -> ApiResponse:
        """Create an object. Raises KubeError; with validation Strict also for unknown fields.

        `validation` is the query parameter fieldValidation: Strict, Warn or Ignore.
        """
        params = {"fieldValidation": validation, "fieldManager": FIELD_MANAGER, **(_DRY_RUN if dry_run else {})}
        resource = await self.get_resource(body["apiVersion"], body["kind"])
        path = resource.build_path(self._get_namespace(body))
        return parse_response(await self.client.request("POST", path, body, params), _format_object_name(body))

    async def apply(
        self,
        body: Object,
        *,
        manager: str = FIELD_MANAGER,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> ApiResponse:
        """Write an object by server-side apply; `manager` then owns all fields of `body`. Raises KubeError.

        Without `force` the server refuses fields of other managers (409). `subresource` begins with a slash.
        """
        path = await self._build_path(body) + subresource
        params = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            "fieldValidation": "Strict",
            **(_DRY_RUN if dry_run else {}),
        }
        response = await self.client.request("PATCH", path, body, params, {"Content-Type": APPLY_PATCH})
        return parse_response(response, _format_object_name(body))

    async def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return an object by kind and name. Raises KubeError; ApiRefusedError with status 404 if there is none."""
        resource = await self.get_resource(api_version, kind)
        return await self._get_model(resource.build_path(namespace or self.namespace, name), Object, f"{kind}/{name}")

    async def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object by kind and name; None if there is none. Raises KubeError."""
        try:
            return await self.get(api_version, kind, name, namespace)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    async def iter_objects(
        self, api_version: str, kind: str, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> AsyncIterator[Object]:
        """Yield the objects of a kind, each with apiVersion and kind. If `namespace` is None, list all namespaces.

        `selector` and `fields` have the syntax of kubectl's --selector and --field-selector. Raises KubeError.
        """
        path = (await self.get_resource(api_version, kind)).build_path(namespace)
        params = {"labelSelector": selector, "fieldSelector": fields}
        async for item in self.client.iter_objects(
            path, Object, **{name: value for name, value in params.items() if value}
        ):
            yield {"apiVersion": api_version, "kind": kind, **item}

    async def iter_table_rows(self, api_version: str, kind: str) -> AsyncIterator[Object]:
        """Yield a row of `kubectl get` for each object of a kind: title of the column -> cell. Raises KubeError.

        A cell without a value is None. Dates are ages, such as 5m.
        """
        path = (await self.get_resource(api_version, kind)).build_path(None)
        columns: Sequence[_Column] = ()
        async for page in self.client.iter_pages(path, _Table, {"includeObject": "None"}, accept=_ACCEPT_TABLE):
            columns = page.column_definitions or columns
            for row in page.rows or ():
                yield dict(zip((column.name for column in columns), row.cells, strict=True))

    async def delete(self, body: Object) -> None:
        """Delete an object if it exists, and its dependents in the background. Raises KubeError."""
        params = {"propagationPolicy": "Background"}
        response = await self.client.request("DELETE", await self._build_path(body), params=params)
        if response.status_code != HTTPStatus.NOT_FOUND:
            check_response(response, _format_object_name(body))

    async def get_resource(self, api_version: str, kind: str) -> ApiResource:
        """Return the resource of a kind. Raises UnknownKindError, KubeError.

        Known kinds are cached. For an unknown kind the discovery is repeated, since its CRD may be new.
        """
        if kind not in self._resources.get(api_version, {}):
            self._resources[api_version] = await self._discover_kinds(api_version)
        try:
            return self._resources[api_version][kind]
        except KeyError as error:
            raise UnknownKindError(f"the server has no {kind} in {api_version}; install its CRD") from error

    async def resolve_kind(self, name: str) -> ApiResource:
        """Return the resource for a plural, singular, kind or Kind.group, like kubectl; results are cached.

        Raises UnknownKindError, KubeError.
        """
        if name not in self._kinds:
            self._kinds[name] = await self._look_up_kind(name)
        return self._kinds[name]

    async def _look_up_kind(self, name: str) -> ApiResource:
        for base in ("/api", "/apis"):
            groups = await self._get_model(
                base, discovery.GroupDiscoveryList, base, {"Accept": discovery.ACCEPT_ALL_GROUPS}
            )
            resource = discovery.find_resource(groups, name)
            if resource is not None:
                return resource
        raise UnknownKindError(f"the server serves nothing called {name}; its CRD comes with its operator")

    async def _discover_kinds(self, api_version: str) -> dict[str, ApiResource]:
        path = discovery.build_version_path(api_version)
        try:
            version = await self._get_model(path, discovery.ResourceList, api_version)
        except ApiRefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise UnknownKindError(f"the server has no {api_version}; install its CRDs") from error
            raise
        return discovery.index_kinds(version, api_version)

    async def _get_model(self, path: str, model: type[_T], target: str, headers: Mapping[str, str] | None = None) -> _T:
        response = await self.client.request("GET", path, headers=headers)
        check_response(response, target)
        return decode_json(response.content, model, target)

    async def _build_path(self, body: Object) -> str:
        resource = await self.get_resource(body["apiVersion"], body["kind"])
        return resource.build_path(self._get_namespace(body), body["metadata"]["name"])

    def _get_namespace(self, body: Object) -> str:
        return body.get("metadata", {}).get("namespace") or self.namespace


def connect(
    kubeconfig: str | None = None, context: str | None = None, policy: RequestPolicy = PATIENT
) -> DynamicClient:
    """Return a client of the API server in a kubeconfig. Raises ConfigurationError."""
    return DynamicClient(Client(load_configuration(kubeconfig, context), policy))


def _format_object_name(body: Object) -> str:
    metadata = body.get("metadata", {})
    suffix = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body.get('kind')}/{metadata.get('name')}{suffix}"
