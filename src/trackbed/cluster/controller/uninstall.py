"""Removal of all objects of controller and webhook from a cluster, once neither is installed any more.

    webhook configurations       first: without a webhook to call, they would keep pods from starting
    Fabrics                      unless they are kept
    taints, cordons, RailNodes   nodes that were being prepared accept pods again; their hosts are left as they are
    Secrets, Lease, locks        objects in the namespace of the programs
    definitions                  last, with the Fabrics

The removal is idempotent, and continues where an interrupted one stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import PartialObject
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller.act import release_node
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, NodeObject
from trackbed.cluster.controller.pace import run_all
from trackbed.cluster.controller.run import LEASE
from trackbed.cluster.resources.railnode import FABRIC_LABEL
from trackbed.cluster.webhook import configuration
from trackbed.cluster.webhook.certificate_store import SECRET

PROGRAMS = frozenset({"trackbed-controller", "trackbed-webhook"})
"""Deployments that would recreate the objects."""
MAX_ATTEMPTS = 10
"""Attempts, as a kubelet may write its Node between our read and our write, and a server may be busy."""
RETRY_SECONDS = 2.0
_ADMISSION = f"/apis/{configuration.API}"
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = ("railnodes.trackbed.dev", "fabrics.trackbed.dev")
_LOCK = "trackbed-lock-"
_SECRETS = (SECRET, "trackbed-webhook-authority", "trackbed-webhook-tls")
"""Secrets of the webhook, and those that cert-manager creates for the chart and does not delete."""
_TRANSIENT = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


class StillRunsError(Exception):
    """The programs are still installed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The objects to keep."""

    fabrics: bool = False
    """Fabrics, their locks and both kinds."""
    locks: bool = False


async def uninstall(client: Client, namespace: str, keep: Keep, log: Callable[[str], None]) -> None:
    """Delete all objects; start over if an object changed meanwhile or the server is busy.

    Raises StillRunsError before the first change, KubeError.
    """
    await _check_not_installed(client)
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            await _delete_objects(client, namespace, keep, log)
        except ApiRefusedError as error:
            if error.status not in _TRANSIENT:
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
    await _delete_objects(client, namespace, keep, log)


async def _delete_objects(client: Client, namespace: str, keep: Keep, log: Callable[[str], None]) -> None:
    await _delete_all(client, [f"{_ADMISSION}/{kind}/{configuration.NAME}" for kind in _CONFIGURATIONS], log)
    if not keep.fabrics:
        await _delete_all(client, await _list_paths(client, FABRICS), log)
    await _release_nodes(client)
    await _delete_all(client, await _list_paths(client, RAILNODES), log)
    await _delete_all(client, [path async for path in _iter_own_paths(client, namespace, keep)], log)
    if not keep.fabrics:
        await _delete_all(client, [f"{_DEFINITIONS}/{kind}" for kind in _KINDS], log)


async def _check_not_installed(client: Client) -> None:
    """Raise StillRunsError if a program is installed in any namespace, since Fabrics are cluster-scoped."""
    deployments = [item.metadata async for item in client.list("/apis/apps/v1/deployments", PartialObject)]
    installed = {metadata.name: metadata.namespace for metadata in deployments if not metadata.deletion_timestamp}
    for name in sorted(PROGRAMS & installed.keys()):
        raise StillRunsError(
            f"Deployment {name} in {installed[name]} would make everything anew: `helm uninstall` takes it away, "
            "and then does what this command does"
        )


async def _release_nodes(client: Client) -> None:
    """Remove our taint and our cordon from every node."""
    nodes = Reflector(client, NODES, NodeObject, lambda: None)  # records the writes; it is not run

    async def release(node: NodeObject) -> bool:
        await release_node(client, nodes, node)
        return True

    await run_all([partial(release, node) async for node in client.list(NODES, NodeObject)])


async def _iter_own_paths(client: Client, namespace: str, keep: Keep) -> AsyncIterator[str]:
    """Yield the paths of the programs' objects in their namespace."""
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    for name in _SECRETS:
        yield f"{core}/secrets/{name}"
    yield f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
    for path in await _list_paths(client, f"{apps}/controllerrevisions", labelSelector=FABRIC_LABEL):
        yield path
    if not (keep.locks or keep.fabrics):
        for path in await _list_paths(client, f"{core}/configmaps"):
            if path.rpartition("/")[2].startswith(_LOCK):
                yield path


async def _list_paths(client: Client, path: str, **selection: str) -> list[str]:
    """Return the paths of all objects of a kind; none where the server has no such kind."""
    try:
        return [f"{path}/{item.metadata.name}" async for item in client.list(path, PartialObject, **selection)]
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


async def _delete_all(client: Client, paths: list[str], log: Callable[[str], None]) -> None:
    await run_all([partial(_delete, client, path, log) for path in paths])


async def _delete(client: Client, path: str, log: Callable[[str], None]) -> bool:
    try:
        await client.delete(path)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    log(f"deleted {'/'.join(path.split('/')[-2:])}")
    return True
