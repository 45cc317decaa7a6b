"""A thin client: generic objects against one API server, with its warnings. Synchronous; one connection pool.

lightkube reads the kubeconfig and logs in (tokens, certificates, exec plugins). Kinds are found by the server's own
discovery, so every CRD works without a model. A server that is busy (429) is asked again, bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2 as httpx
import msgspec
import yaml
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from trackbed.cluster.api import discovery
from trackbed.cluster.api.answer import Answer, Object, busy_seconds, read, shaped
from trackbed.cluster.api.discovery import Resource
from trackbed.cluster.api.errors import ConfigurationError, RefusedError, UnknownKindError, UnreachableError

__all__ = ("Answer", "Client", "Object", "connect")

FIELD_MANAGER = "trackbed"
TIMEOUT_SECONDS = 30.0
BUSY_TRIES = 8
"""Times a busy server is asked; it says how many seconds to wait, usually 1."""
PAGE = 500
"""Objects listed at once, as kubectl does."""


_JSON = "application/json"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class _Version(msgspec.Struct):
    """What /version answers; only what is used, here and below."""

    gitVersion: str  # noqa: N815 - the API's name


class _More(msgspec.Struct, rename={"token": "continue"}):
    """Where the next page begins."""

    token: str | None = None


class _Page(msgspec.Struct):
    """A page of a list."""

    items: list[Object] | None
    metadata: _More


class _Column(msgspec.Struct):
    """A column of a table."""

    name: str


class _Row(msgspec.Struct):
    """A row of a table."""

    cells: list[Any]


class _Table(msgspec.Struct):
    """A page of a list, as printed (meta.k8s.io/v1, Table)."""

    columnDefinitions: list[_Column] | None  # noqa: N815 - the API's name
    rows: list[_Row] | None
    metadata: _More


class Client:
    """One API server, seen as one user.

    `before` is called before each request; what it raises ends the work, so that a thread can be told to stop.
    """

    def __init__(
        self,
        config: SingleConfig,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        try:
            timeout = httpx.Timeout(timeout_seconds)
            parameters = client_adapter.ConnectionParams(timeout=timeout).httpx_params(config)
            hooks = {"request": [lambda _: before()]}
            self._http = httpx.Client(**parameters, mounts=_past_proxies(config.cluster.server), event_hooks=hooks)
        except (ConfigError, OSError, ValueError, httpx.InvalidURL) as error:
            raise ConfigurationError(f"this kubeconfig cannot be used: {error}") from error
        self.namespace = config.namespace
        self._resources: dict[str, dict[str, Resource]] = {}
        self._words: dict[str, Resource] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @cached_property
    def version(self) -> str:
        """The server's version, v1.36.3."""
        return shaped(self._ask("GET", "/version", "version").body, _Version, "version").gitVersion

    def create(self, one: Object, *, validation: str = "Strict", dry_run: bool = False) -> Answer:
        """Create an object; RefusedError if the server does not want it (unknown fields included, in Strict)."""
        options = {"fieldValidation": validation, "fieldManager": FIELD_MANAGER, **_dry(dry_run=dry_run)}
        return self._ask("POST", self._collection(one), _called(one), body=one, params=options)

    def apply(
        self,
        one: Object,
        *,
        manager: str = FIELD_MANAGER,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Answer:
        """Server-side apply: what `one` names belongs to `manager` afterwards; conflicts are refused unless forced."""
        path = self._resource(one).path(self._namespace(one), one["metadata"]["name"]) + subresource
        options = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            "fieldValidation": "Strict",
            **_dry(dry_run=dry_run),
        }
        kind = "application/apply-patch+yaml"
        return self._ask("PATCH", path, _called(one), body=one, params=options, content_type=kind)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """One object; RefusedError with status 404 where there is none."""
        where = self.resource(api_version, kind).path(namespace or self.namespace, name)
        return self._ask("GET", where, f"{kind}/{name}").body

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object; None where there is none."""
        try:
            return self.get(api_version, kind, name, namespace)
        except RefusedError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise
            return None

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> Iterator[Object]:
        """All objects of a kind, of all namespaces unless one is named, page by page; each with apiVersion and kind.

        `selector` is one of labels, `fields` one of fields, as kubectl's --selector and --field-selector.
        """
        where, token = self.resource(api_version, kind).path(namespace), ""
        chosen = {"labelSelector": selector} if selector else {}
        chosen |= {"fieldSelector": fields} if fields else {}
        while True:
            told = self._ask("GET", where, kind, params={"limit": str(PAGE), "continue": token, **chosen})
            page = shaped(told.body, _Page, kind)
            yield from ({"apiVersion": api_version, "kind": kind, **one} for one in page.items or ())
            token = page.metadata.token or ""
            if not token:
                return

    def table(self, api_version: str, kind: str) -> Iterator[Object]:
        """Each object of a kind as `kubectl get` prints it: column -> cell; nothing else is sent, so it is quick.

        A cell that the object has nothing for is None; dates are told as ages (5m).
        """
        where, token = self.resource(api_version, kind).path(None), ""
        columns: Sequence[_Column] = ()
        while True:
            params = {"limit": str(PAGE), "continue": token, "includeObject": "None"}
            page = shaped(self._ask("GET", where, kind, params=params, accept=_TABLE).body, _Table, kind)
            columns = page.columnDefinitions or columns
            yield from (dict(zip((c.name for c in columns), row.cells, strict=True)) for row in page.rows or ())
            token = page.metadata.token or ""
            if not token:
                return

    def delete(self, one: Object) -> None:
        """Delete an object, and what it owns after it; that it is gone already is fine."""
        path = self._resource(one).path(self._namespace(one), one["metadata"]["name"])
        try:
            self._ask("DELETE", path, _called(one), params={"propagationPolicy": "Background"})
        except RefusedError as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    def resource(self, api_version: str, kind: str) -> Resource:
        """Where a kind is served; a kind that is not known yet is looked up once more."""
        found = self._resources.get(api_version, {}).get(kind)
        if found is None:
            self._resources[api_version] = self._discover(api_version)
            found = self._resources[api_version].get(kind)
        if found is None:
            raise UnknownKindError(f"the server has no {kind} in {api_version}; install its CRD")
        return found

    def called(self, word: str) -> Resource:
        """The kind called so, as with kubectl: its plural, singular or name, Kind.group. Raises UnknownKindError.

        What was found once is not looked up again; what was not may be there by now.
        """
        if word not in self._words:
            self._words[word] = self._look_up(word)
        return self._words[word]

    def _look_up(self, word: str) -> Resource:
        for base in ("/api", "/apis"):
            told = self._ask("GET", base, base, accept=discovery.EVERYTHING)
            found = discovery.called(shaped(told.body, discovery.Groups, base), word)
            if found is not None:
                return found
        raise UnknownKindError(f"the server serves nothing called {word}; its CRD comes with its operator")

    def _discover(self, api_version: str) -> dict[str, Resource]:
        base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            told = self._ask("GET", base, api_version)
        except RefusedError as error:
            if error.status == httpx.codes.NOT_FOUND:
                raise UnknownKindError(f"the server has no {api_version}; install its CRDs") from error
            raise
        return discovery.by_kind(shaped(told.body, discovery.Version, api_version), api_version)

    def _resource(self, one: Object) -> Resource:
        return self.resource(one["apiVersion"], one["kind"])

    def _namespace(self, one: Object) -> str:
        return one.get("metadata", {}).get("namespace") or self.namespace

    def _collection(self, one: Object) -> str:
        return self._resource(one).path(self._namespace(one))

    def _ask(  # noqa: PLR0913 - a request has these parts
        self,
        method: str,
        path: str,
        what: str,
        *,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Answer:
        content = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": content_type, "Accept": accept}
        for left in range(BUSY_TRIES - 1, -1, -1):
            try:
                told = self._http.request(method, path, params=params, content=content, headers=headers)
            except httpx.HTTPError as error:
                raise UnreachableError(f"no answer from {self._http.base_url}: {error}") from error
            except _NO_LOGIN as error:
                raise ConfigurationError(f"cannot log in as this kubeconfig says: {error}") from error
            if told.status_code != httpx.codes.TOO_MANY_REQUESTS or not left:
                return read(told, what)
            time.sleep(busy_seconds(told))
        raise AssertionError("unreachable: the last try returns")


def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """The server that a kubeconfig names: the file given, else KUBECONFIG, ~/.kube/config, or the pod's own account."""
    return Client(configured(kubeconfig, context))


def configured(kubeconfig: str | None = None, context: str | None = None) -> SingleConfig:
    """What a kubeconfig says of one server and user. Raises ConfigurationError."""
    try:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
        single = config.get(context)
    except _BROKEN as error:
        raise ConfigurationError(f"no usable kubeconfig: {error}; name one with --kubeconfig") from error
    if single is None:
        raise ConfigurationError("the kubeconfig has no current context; name a file with --kubeconfig")
    return single


_BROKEN = (
    *(ConfigError, OSError, ValueError, msgspec.MsgspecError, yaml.YAMLError),
    *(AttributeError, KeyError, TypeError),  # what lightkube falls over in a file that is YAML but no kubeconfig
)

_NO_LOGIN = (ConfigError, OSError, ValueError, KeyError, TypeError)
"""What lightkube raises where a token's file or an exec plugin is missing, fails, or answers something else."""


def _dry(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _called(one: Object) -> str:
    metadata = one.get("metadata", {})
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{one.get('kind')}/{metadata.get('name')}{where}"


def _past_proxies(server: str) -> dict[str, httpx.BaseTransport | None] | None:
    """A server on loopback is never asked through HTTPS_PROXY, as kubectl does not: no proxy could reach it."""
    host = urlsplit(server).hostname or ""
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return None
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if loopback else None
