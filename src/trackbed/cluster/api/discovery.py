"""Discovery documents of a server: the kinds that it serves, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

EVERYTHING = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Value of Accept for /api and /apis for aggregated discovery (KEP-3352): all groups at once, since Kubernetes 1.30."""


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind and its place in the API."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def build_path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of a collection, or of one object."""
        base = f"/api/{self.group_version}" if "/" not in self.group_version else f"/apis/{self.group_version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{base}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class _Served(msgspec.Struct):
    """A kind, or a subresource of one."""

    name: str
    kind: str
    namespaced: bool


class Version(msgspec.Struct):
    """The kinds of one version of a group; Go writes an empty list as null."""

    resources: list[_Served] | None


class _Kind(msgspec.Struct):
    kind: str


class _ServedKind(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _Kind
    scope: str
    singular_resource: str = ""


class _ServedVersion(msgspec.Struct):
    version: str
    resources: list[_ServedKind] = []


class _Named(msgspec.Struct):
    name: str = ""


class _GroupDiscovery(msgspec.Struct):
    metadata: _Named
    versions: list[_ServedVersion] = []


class Groups(msgspec.Struct):
    """The kinds of all groups, each with its preferred version first."""

    items: list[_GroupDiscovery] | None


def index_kinds(version: Version, api_version: str) -> dict[str, ApiResource]:
    """Return the resources of a version by kind."""
    served = [entry for entry in version.resources or () if "/" not in entry.name]
    return {entry.kind: ApiResource(api_version, entry.name, entry.kind, entry.namespaced) for entry in served}


def find_kind(groups: Groups, name: str) -> ApiResource | None:
    """Return the first kind with this plural, singular or name, in any case; `name` may end in .GROUP."""
    plain_name, _, suffix = name.lower().partition(".")
    for group in groups.items or ():
        for version in group.versions:
            for served in version.resources:
                kind = served.response_kind.kind
                names = {served.resource, served.singular_resource, kind.lower()}
                if plain_name in names and suffix in {"", group.metadata.name}:
                    api_version = "/".join(filter(None, (group.metadata.name, version.version)))
                    return ApiResource(api_version, served.resource, kind, served.scope == "Namespaced")
    return None
