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
from typing import TypeVar

import msgspec

from trackbed.cluster.api.errors import RefusedError
from trackbed.cluster.api.live import Live, decoded
from trackbed.cluster.api.reflector import PAGE, Reflector
from trackbed.cluster.controller.act import free
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, Node
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
_NOT_FOUND, _CONFLICT, _BUSY = 404, 409, 429
_PASSES = frozenset({_CONFLICT, _BUSY})

_Kind = TypeVar("_Kind")


class StillRunsError(Exception):
    """The programs are still installed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What stays."""

    fabrics: bool = False
    """Fabrics, their locks and both kinds."""
    locks: bool = False


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    deletion_timestamp: str | None = None


class _Named(msgspec.Struct):
    metadata: _Meta


class _More(msgspec.Struct):
    token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _More
    items: list[msgspec.Raw] | None = None


async def uninstall(live: Live, namespace: str, keep: Keep, tell: Callable[[str], None]) -> None:
    """Take it all away; from the beginning where others write meanwhile or the server is busy.

    Raises StillRunsError before the first change, KubeError.
    """
    await _refuse_while_installed(live)
    for _ in range(TRIES - 1):
        try:
            await _once(live, namespace, keep, tell)
        except RefusedError as error:
            if error.status not in _PASSES:
                raise
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
    await _once(live, namespace, keep, tell)


async def _once(live: Live, namespace: str, keep: Keep, tell: Callable[[str], None]) -> None:
    await _delete_all(live, [f"{_ADMISSION}/{kind}/{configuration.NAME}" for kind in _CONFIGURATIONS], tell)
    if not keep.fabrics:
        await _delete_all(live, await _below(live, FABRICS), tell)
    await _free_all(live)
    await _delete_all(live, await _below(live, RAILNODES), tell)
    await _delete_all(live, [path async for path in _kept(live, namespace, keep)], tell)
    if not keep.fabrics:
        await _delete_all(live, [f"{_DEFINITIONS}/{kind}" for kind in _KINDS], tell)


async def _refuse_while_installed(live: Live) -> None:
    """Wherever they are: Fabrics and webhook configurations are the whole cluster's."""
    found = await _listed(live, "/apis/apps/v1/deployments", _Named)
    installed = {one.metadata.name: one.metadata.namespace for one in found if not one.metadata.deletion_timestamp}
    for name in sorted(PROGRAMS & installed.keys()):
        raise StillRunsError(
            f"Deployment {name} in {installed[name]} would make everything anew: `helm uninstall` takes it away, "
            "and then does what this command does"
        )


async def _free_all(live: Live) -> None:
    """Take taint and cordon from every node, as far as they are ours."""
    nodes = Reflector(live, NODES, Node, lambda: None)  # takes note of writes; nobody follows it

    async def freed(node: Node) -> bool:
        await free(live, nodes, node)
        return True

    await together([partial(freed, node) for node in await _listed(live, NODES, Node)])


async def _kept(live: Live, namespace: str, keep: Keep) -> AsyncIterator[str]:
    """Paths of what the programs keep in their namespace."""
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    for name in _SECRETS:
        yield f"{core}/secrets/{name}"
    yield f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"
    for path in await _below(live, f"{apps}/controllerrevisions", labelSelector=FABRIC_LABEL):
        yield path
    if not (keep.locks or keep.fabrics):
        for path in await _below(live, f"{core}/configmaps"):
            if path.rpartition("/")[2].startswith(_LOCK):
                yield path


async def _below(live: Live, path: str, **chosen: str) -> list[str]:
    """Paths of all objects of a kind; none where the server has no such kind."""
    try:
        return [f"{path}/{one.metadata.name}" for one in await _listed(live, path, _Named, **chosen)]
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        return []


async def _listed(live: Live, path: str, shape: type[_Kind], **chosen: str) -> list[_Kind]:
    """All objects of a kind, page by page."""
    found: list[_Kind] = []
    more: dict[str, str] = {}
    while True:
        page = await live.get(path, _Page, limit=str(PAGE), **more, **chosen)
        found += [decoded(raw, shape, path) for raw in page.items or ()]
        if not page.metadata.token:
            return found
        more = {"continue": page.metadata.token}


async def _delete_all(live: Live, paths: list[str], tell: Callable[[str], None]) -> None:
    await together([partial(_delete, live, path, tell) for path in paths])


async def _delete(live: Live, path: str, tell: Callable[[str], None]) -> bool:
    try:
        await live.delete(path)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    tell(f"deleted {'/'.join(path.split('/')[-2:])}")
    return True
