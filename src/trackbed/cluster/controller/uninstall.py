"""Takes away what controller and webhook made in a cluster, once neither is installed any more.

    webhook configurations       first: with nobody to ask, they would keep pods from starting
    Fabrics                      unless they shall stay
    taints, cordons, RailNodes   nodes that were being prepared take pods again; their hosts stay as they are
    Secrets, Lease, locks        what the programs kept in their namespace
    definitions                  last, with the Fabrics

Doing it twice is fine, and so is going on where another one ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import PartialObject
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller.act import free
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, NodeObject
from trackbed.cluster.controller.pace import together
from trackbed.cluster.controller.run import LEASE
from trackbed.cluster.resources.railnode import FABRIC_LABEL
from trackbed.cluster.webhook import configuration
from trackbed.cluster.webhook.keeping import SECRET

PROGRAMS = frozenset({"trackbed-controller", "trackbed-webhook"})
"""Deployments that would make it all again."""
TRIES = 10
"""Times that a node's kubelet may write it between our look and our write, or that a server may be busy."""
AGAIN_SECONDS = 2.0
_ADMISSION = f"/apis/{configuration.API}"
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KINDS = ("railnodes.trackbed.dev", "fabrics.trackbed.dev")
_LOCK = "trackbed-lock-"
_SECRETS = (SECRET, "trackbed-webhook-authority", "trackbed-webhook-tls")
"""Ours, and those that cert-manager makes for the chart and leaves behind."""
_PASSES = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


class StillRunsError(Exception):
    """The programs are still installed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What stays."""

    fabrics: bool = False
    """Fabrics, their locks and both kinds."""
    locks: bool = False


async def uninstall(client: Client, namespace: str, keep: Keep, tell: Callable[[str], None]) -> None:
    """Take it all away; from the beginning where others write meanwhile or the server is busy.

    Raises StillRunsError before the first change, KubeError.
    """
    await _refuse_while_installed(client)
    for _ in range(TRIES - 1):
        try:
            await _once(client, namespace, keep, tell)
        except ApiRefusedError as error:
            if error.status not in _PASSES:
                raise
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
    await _once(client, namespace, keep, tell)


async def _once(client: Client, namespace: str, keep: Keep, tell: Callable[[str], None]) -> None:
    await _delete_all(client, [f"{_ADMISSION}/{kind}/{configuration.NAME}" for kind in _CONFIGURATIONS], tell)
    if not keep.fabrics:
        await _delete_all(client, await _list_paths(client, FABRICS), tell)
    await _free_all(client)
    await _delete_all(client, await _list_paths(client, RAILNODES), tell)
    await _delete_all(client, [path async for path in _kept(client, namespace, keep)], tell)
    if not keep.fabrics:
        await _delete_all(client, [f"{_DEFINITIONS}/{kind}" for kind in _KINDS], tell)


async def _refuse_while_installed(client: Client) -> None:
    """Wherever they are: Fabrics and webhook configurations are the whole cluster's."""
    deployments = [item.metadata async for item in client.list("/apis/apps/v1/deployments", PartialObject)]
    installed = {metadata.name: metadata.namespace for metadata in deployments if not metadata.deletion_timestamp}
    for name in sorted(PROGRAMS & installed.keys()):
        raise StillRunsError(
            f"Deployment {name} in {installed[name]} would make everything anew: `helm uninstall` takes it away, "
            "and then does what this command does"
        )


async def _free_all(client: Client) -> None:
    """Take taint and cordon from every node, as far as they are ours."""
    nodes = Reflector(client, NODES, NodeObject, lambda: None)  # takes note of writes; nobody follows it

    async def free_node(node: NodeObject) -> bool:
        await free(client, nodes, node)
        return True

    await together([partial(free_node, node) async for node in client.list(NODES, NodeObject)])


async def _kept(client: Client, namespace: str, keep: Keep) -> AsyncIterator[str]:
    """Paths of what the programs keep in their namespace."""
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


async def _delete_all(client: Client, paths: list[str], tell: Callable[[str], None]) -> None:
    await together([partial(_delete, client, path, tell) for path in paths])


async def _delete(client: Client, path: str, tell: Callable[[str], None]) -> bool:
    try:
        await client.delete(path)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    tell(f"deleted {'/'.join(path.split('/')[-2:])}")
    return True
