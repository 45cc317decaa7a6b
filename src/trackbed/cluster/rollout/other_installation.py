"""Steps that are left out because what they install is installed already, under other names."""

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.rollout.options import format_object_name
from trackbed.cluster.stacks.install.steps import ApplyFile


async def describe_other_installation(client: DynamicClient, step: ApplyFile) -> str:
    """Return the objects in whose presence a step is not applied, as text; empty if there are none. Raises KubeError.

    Kinds that the server does not serve have no objects.
    """
    if step.yields_to is None:
        return ""
    names: list[str] = []
    for kind in step.yields_to.group_kinds:
        try:
            resource = await client.resolve_kind(kind)
        except UnknownKindError:
            continue
        listing = client.iter_objects(resource.group_version, resource.kind, step.yields_to.namespace)
        names += [format_object_name(body) async for body in listing if body["metadata"]["name"] != step.yields_to.name]
    return ", ".join(names)
