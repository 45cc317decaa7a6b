"""Discovery documents of a server: the kinds that it serves, and their paths."""

from dataclasses import dataclass

import msgspec

from trackbed.cluster.api.paths import join_path

ACCEPT_ALL_GROUPS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Accept header for /api and /apis that requests the kinds of all groups at once (KEP-3352, Kubernetes 1.30)."""


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind that the server serves, and the parts of its paths."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def build_path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of an object, or of the collection if `name` is None.

        Cluster-scoped kinds ignore `namespace`. Raises ApiRefusedError for a name that cannot be a segment.
        """
        inside = ("namespaces", namespace) if self.namespaced and namespace else ()
        collection = join_path(build_version_path(self.group_version), *inside, self.plural)
        return collection if name is None else join_path(collection, name)


class _Resource(msgspec.Struct):
    """A kind or subresource in a `ResourceList`."""

    name: str
    kind: str
    namespaced: bool


class ResourceList(msgspec.Struct):
    """The kinds of one API version (APIResourceList); a server written in Go sends null for an empty list."""

    resources: list[_Resource] | None


class _ResponseKind(msgspec.Struct):
    """The kind of the objects of a resource."""

    kind: str


class _DiscoveredResource(msgspec.Struct, rename="camel"):
    """A kind in a `GroupDiscoveryList`; `resource` is its plural."""

    resource: str
    response_kind: _ResponseKind
    scope: str
    singular_resource: str = ""


class _DiscoveredVersion(msgspec.Struct):
    """A version of a group, with its kinds."""

    version: str
    resources: list[_DiscoveredResource] = []


class _GroupMetadata(msgspec.Struct):
    """The name of a group; empty for the core group."""

    name: str = ""


class _GroupDiscovery(msgspec.Struct):
    """A group, with its versions."""

    metadata: _GroupMetadata
    versions: list[_DiscoveredVersion] = []


class GroupDiscoveryList(msgspec.Struct):
    """The kinds of all groups (APIGroupDiscoveryList); the preferred version of a group comes first."""

    items: list[_GroupDiscovery] | None


def build_version_path(api_version: str) -> str:
    """Return the path of an API version: v1 or GROUP/VERSION. Raises ApiRefusedError."""
    return join_path("/apis" if "/" in api_version else "/api", *api_version.split("/"))


def index_kinds(resource_list: ResourceList, api_version: str) -> dict[str, ApiResource]:
    """Return the resources of an API version by kind, without subresources."""
    resources = [resource for resource in resource_list.resources or () if "/" not in resource.name]
    return {
        resource.kind: ApiResource(api_version, resource.name, resource.kind, resource.namespaced)
        for resource in resources
    }


def find_resource(groups: GroupDiscoveryList, name: str) -> ApiResource | None:
    """Return the first resource whose plural, singular or kind is `name`, ignoring case; None if there is none.

    `name` may end in .GROUP.
    """
    plain_name, _, suffix = name.lower().partition(".")
    for group in groups.items or ():
        for version in group.versions:
            for resource in version.resources:
                kind = resource.response_kind.kind
                names = {resource.resource, resource.singular_resource, kind.lower()}
                if plain_name in names and suffix in {"", group.metadata.name}:
                    api_version = "/".join(filter(None, (group.metadata.name, version.version)))
                    return ApiResource(api_version, resource.resource, kind, resource.scope == "Namespaced")
    return None
