"""Removal of a set's objects, kind by kind, in the reverse order of the stack's stages.

    kinds that the stack no longer has
    networks, pools, policies, then what they need: the operator's configuration, and the labels of the nodes

Before the next kind the objects are gone, and the SR-IOV operator has removed the VFs of deleted policies: an operator
needs its configuration to finalize its objects, and its daemon runs only on nodes that have the label. Each wait has a
time limit. A removal that ends there can be repeated, since what is left are still members of the set.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.agent_removal import REMOVAL_SECONDS, is_agent_daemon_set, remove_agents
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet, to_object_key
from trackbed.cluster.rollout.attempts import iter_attempts
from trackbed.cluster.rollout.node_states import PolicyPorts, list_unsynced_nodes, read_policy_ports
from trackbed.cluster.rollout.options import RunOptions, StuckError, format_object_name
from trackbed.cluster.stacks.sriov import READY_SECONDS

DELETION_SECONDS = 600
"""Time limit for the finalizers of the objects of a kind."""
_NODE_POLICY, _POOL_CONFIG = "SriovNetworkNodePolicy", "SriovNetworkPoolConfig"
_MAX_SHOWN_LINES = 5
_FINALIZER_REMEDY = "see that the operator that removes these finalizers runs"
_SYNC_REMEDY = (
    "`kubectl logs --namespace NAMESPACE --selector app=sriov-network-config-daemon --prefix --tail 20` says what each "
    "node does"
)


class KindGroup(NamedTuple):
    """The objects of a kind to delete; `kind` is without its group."""

    kind: str
    objects: tuple[Object, ...]


def order_for_removal(objects: Iterable[Object], applied_kinds: Sequence[str]) -> list[KindGroup]:
    """Return objects by kind in the order of deletion.

    `applied_kinds` are the kinds of the stack (`ObjectKey.group_kind`) in the order in which it applies them. Each of
    them is returned, also without objects.
    """
    by_kind: dict[str, list[Object]] = {}
    for body in objects:
        by_kind.setdefault(to_object_key(body).group_kind, []).append(body)
    kinds = [*(kind for kind in by_kind if kind not in applied_kinds), *reversed(applied_kinds)]
    groups = [KindGroup(kind.partition(".")[0], tuple(by_kind.get(kind, ()))) for kind in kinds]
    return _move_pool_config(groups)


def _move_pool_config(groups: list[KindGroup]) -> list[KindGroup]:
    """Return the groups with SriovNetworkPoolConfig behind SriovNetworkNodePolicy.

    A stage before the labels may have it, but the daemon that restores the RDMA mode needs label and configuration.
    """
    names = [group.kind for group in groups]
    if _NODE_POLICY not in names or _POOL_CONFIG not in names:
        return groups
    pool_config = groups.pop(names.index(_POOL_CONFIG))
    position = [group.kind for group in groups].index(_NODE_POLICY) + 1
    return [*groups[:position], pool_config, *groups[position:]]


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletes objects of a set and waits for their finalizers."""

    client: DynamicClient
    applyset: ApplySet
    options: RunOptions
    report: Callable[[str], None]
    """Function that receives a line about each wait."""
    resumes: bool
    """Whether to wait for nodes of policies that an interrupted removal deleted."""

    async def delete(self, groups: Sequence[KindGroup], record: Callable[[Object], None]) -> None:
        """Delete all objects, in order; `record` receives each of them. Raises StuckError, KubeError."""
        policies = [body for group in groups if group.kind == _NODE_POLICY for body in group.objects]
        removed = await read_policy_ports(self.client, {body["metadata"]["name"] for body in policies})
        for index, group in enumerate(groups):
            for body in group.objects:
                await self._delete_object(body)
                record(body)
            if any(later.objects for later in groups[index + 1 :]):
                await self._wait_for_group(group, removed)

    async def _delete_object(self, body: Object) -> None:
        if is_agent_daemon_set(body):
            limit = self.options.get_timeout(int(REMOVAL_SECONDS))
            await remove_agents(self.client, body["metadata"]["namespace"], self.report, limit)
        await self.client.delete(body)

    async def _wait_for_group(self, group: KindGroup, removed: PolicyPorts) -> None:
        """Wait for the finalizers of deleted objects, and for the nodes of SR-IOV policies. Raises StuckError."""
        if group.objects:
            await self._wait(DELETION_SECONDS, _FINALIZER_REMEDY, lambda: self._list_remaining(group.objects))
        if group.kind in {_NODE_POLICY, _POOL_CONFIG} and (group.objects or self.resumes):
            await self._wait(READY_SECONDS, _SYNC_REMEDY, lambda: list_unsynced_nodes(self.client, removed))

    async def _list_remaining(self, deleted: Sequence[Object]) -> list[str]:
        """Return a line for each deleted object of a kind that still exists, by one list for each namespace."""
        api_version, kind = deleted[0]["apiVersion"], deleted[0]["kind"]
        uids = {body["metadata"]["uid"] for body in deleted}
        selector = f"{PART_OF}={self.applyset.id}"
        remaining: list[Object] = []
        for namespace in sorted({body["metadata"].get("namespace", "") for body in deleted}):
            try:
                listing = self.client.iter_objects(api_version, kind, namespace or None, selector=selector)
                remaining += [body async for body in listing if body["metadata"]["uid"] in uids]
            except UnknownKindError:
                return []  # the operator deleted its CRD, and all objects with it
        return [_describe_finalizers(body) for body in remaining]

    async def _wait(self, seconds: int, remedy: str, list_missing: Callable[[], Awaitable[list[str]]]) -> None:
        """Wait until nothing is missing, with progress. Past the limit, raise StuckError; with --force, continue."""
        limit = self.options.get_timeout(seconds)
        lines: list[str] = []
        async for _ in iter_attempts(limit):
            reported, lines = lines, _shorten(await list_missing())
            if not lines:
                return
            if lines != reported:
                self.report(f"waiting: {'; '.join(lines)}")
        if self.options.force:
            self.report(f"continuing although after {limit} s: {'; '.join(lines)}")
            return
        listed = "".join(f"\n  {line}" for line in lines)
        raise StuckError(
            f"the removal waits, after {limit} s, for:{listed}\n  what to do: {remedy}; then run this again, "
            "or use --force to delete the others nevertheless"
        )


def _describe_finalizers(body: Object) -> str:
    keepers = ", ".join(body["metadata"].get("finalizers") or ()) or "no finalizer"
    return f"{format_object_name(body)} was deleted and waits for {keepers}"


def _shorten(lines: list[str]) -> list[str]:
    """Return the first lines, and how many others there are."""
    others = [f"and {len(lines) - _MAX_SHOWN_LINES} more"] if len(lines) > _MAX_SHOWN_LINES else []
    return [*lines[:_MAX_SHOWN_LINES], *others]
