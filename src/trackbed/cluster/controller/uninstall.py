"""Removal of all objects of controller and webhook from a cluster, once neither program is installed.

    webhook configurations       first: without a webhook to call, they would keep pods from starting
    Fabrics                      unless they are kept
    taints, cordons, RailNodes   nodes that were being prepared accept pods again; their hosts are left as they are
    Secrets, Lease, locks        objects in the namespace of the programs
    CRDs                         last, unless Fabrics are kept

The removal is idempotent, and continues where an interrupted one stopped.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.concurrency import run_each
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import PartialObject
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller.act import release_node
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, NodeObject
from trackbed.cluster.controller.run import LEASE
from trackbed.cluster.resources.railnode import FABRIC_LABEL, TAINT, UNPROVED_TAINT
from trackbed.cluster.webhook import configuration
from trackbed.cluster.webhook.certificate_store import SECRET

PROGRAMS = frozenset({"trackbed-controller", "trackbed-webhook"})
"""Deployments that would recreate deleted objects."""
MAX_ATTEMPTS = 10
"""Attempts to delete all objects: a kubelet may write its Node between our read and our write."""
RETRY_SECONDS = 2.0
_ADMISSION = f"/apis/{configuration.API}"
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRDS = ("railnodes.trackbed.dev", "fabrics.trackbed.dev")
_LOCK_PREFIX = "trackbed-lock-"
_SECRETS = (SECRET, "trackbed-webhook-authority", "trackbed-webhook-tls")
"""Secrets of the webhook, including those that cert-manager creates for the chart and does not delete."""
_TRANSIENT_STATUSES = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


class StillInstalledError(Exception):
    """The controller or the webhook is still installed. The message says how to remove it."""


@dataclass(frozen=True, slots=True)
class KeepOptions:
    """Objects that an uninstallation keeps."""

    fabrics: bool = False
    """Whether to keep Fabrics, their locks and both CRDs."""
    locks: bool = False
    """Whether to keep the locks."""


async def uninstall(client: Client, namespace: str, keep: KeepOptions, log: Callable[[str], None]) -> None:
    """Delete all objects; start again if an object has changed meanwhile or the server is busy.

    Raises StillInstalledError before the first change, and KubeError.
    """
    await _check_not_installed(client)
    for attempts in range(1, MAX_ATTEMPTS + 1):
        try:
            await _delete_objects(client, namespace, keep, log)
        except ApiRefusedError as error:
            if error.status not in _TRANSIENT_STATUSES or attempts == MAX_ATTEMPTS:
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _delete_objects(client: Client, namespace: str, keep: KeepOptions, log: Callable[[str], None]) -> None:
    await _delete_paths(client, [f"{_ADMISSION}/{kind}/{configuration.NAME}" for kind in _CONFIGURATIONS], log)
    if not keep.fabrics:
        await _delete_paths(client, await _list_paths(client, FABRICS), log)
    await _release_nodes(client)
    await _delete_paths(client, await _list_paths(client, RAILNODES), log)
    await _delete_paths(client, [path async for path in _iter_paths_to_delete(client, namespace, keep)], log)
    if not keep.fabrics:
        await _delete_paths(client, [f"{_DEFINITIONS}/{kind}" for kind in _CRDS], log)


async def _check_not_installed(client: Client) -> None:
    """Raise StillInstalledError if a program is installed in any namespace, since Fabrics are cluster-scoped."""
    deployments = [item.metadata async for item in client.iter_objects("/apis/apps/v1/deployments", PartialObject)]
    installed = {metadata.name: metadata.namespace for metadata in deployments if not metadata.deletion_timestamp}
    for name in sorted(PROGRAMS & installed.keys()):
        raise StillInstalledError(
            f"Deployment {name} in {installed[name]} would recreate everything: `helm uninstall` removes it, "
            "and then does what this command does"
        )


async def _release_nodes(client: Client) -> None:
    nodes = Reflector(client, NODES, NodeObject, lambda: None)  # release_node records its writes in it; it is not run
    keys = (TAINT, UNPROVED_TAINT)
    listed = client.iter_objects(NODES, NodeObject)
    await run_each([partial(release_node, client, nodes, node, keys) async for node in listed])


async def _iter_paths_to_delete(client: Client, namespace: str, keep: KeepOptions) -> AsyncIterator[str]:
    """Yield the paths of all objects to delete in the namespace of the programs. Raises KubeError."""
    core = join_path("/api/v1/namespaces", namespace)
    for name in _SECRETS:
        yield join_path(core, "secrets", name)
    yield join_path("/apis/coordination.k8s.io/v1/namespaces", namespace, "leases", LEASE)
    revisions = join_path("/apis/apps/v1/namespaces", namespace, "controllerrevisions")
    for path in await _list_paths(client, revisions, labelSelector=FABRIC_LABEL):
        yield path
    if not (keep.locks or keep.fabrics):
        for path in await _list_paths(client, f"{core}/configmaps"):
            if path.rpartition("/")[2].startswith(_LOCK_PREFIX):
                yield path


async def _list_paths(client: Client, collection: str, **selection: str) -> list[str]:
    """Return the paths of all objects of a kind; an empty list if the server has no such kind."""
    try:
        return [
            join_path(collection, item.metadata.name)
            async for item in client.iter_objects(collection, PartialObject, **selection)
        ]
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


async def _delete_paths(client: Client, paths: list[str], log: Callable[[str], None]) -> None:
    await run_each([partial(_delete_path, client, path, log) for path in paths])


async def _delete_path(client: Client, path: str, log: Callable[[str], None]) -> None:
    if await client.delete(path):
        log(f"deleted {'/'.join(path.split('/')[-2:])}")
