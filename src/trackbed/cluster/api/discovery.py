"""Which kinds a server serves, and where: its own discovery documents, so that every CRD works without a model."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

EVERYTHING = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""What to accept from /api and /apis for aggregated discovery (KEP-3352): all groups at once, since Kubernetes 1.30."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where a kind is served."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The address of a collection, or of one object."""
        base = f"/api/{self.group_version}" if "/" not in self.group_version else f"/apis/{self.group_version}"
        inside = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{base}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class _Served(msgspec.Struct):
    """A kind, or a subresource of one."""

    name: str
    kind: str
    namespaced: bool


class Version(msgspec.Struct):
    """What one version of one group serves; Go writes an empty list as null."""

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


class _Group(msgspec.Struct):
    metadata: _Named
    versions: list[_ServedVersion] = []


class Groups(msgspec.Struct):
    """What all groups serve, each with the version first that the server prefers."""

    items: list[_Group] | None


def by_kind(found: Version, api_version: str) -> dict[str, Resource]:
    """Kind -> where it is served."""
    listed = found.resources or ()
    return {e.kind: Resource(api_version, e.name, e.kind, e.namespaced) for e in listed if "/" not in e.name}


def called(found: Groups, word: str) -> Resource | None:
    """The first kind with this plural, singular or name, in any case; `word` may end in .GROUP."""
    name, _, wanted = word.lower().partition(".")
    for group in found.items or ():
        for version in group.versions:
            for one in version.resources:
                kind = one.response_kind.kind
                names = {one.resource, one.singular_resource, kind.lower()}
                if name in names and wanted in {"", group.metadata.name}:
                    api_version = "/".join(filter(None, (group.metadata.name, version.version)))
                    return Resource(api_version, one.resource, kind, one.scope == "Namespaced")
    return None
