"""Watch of the cluster for reviews: reflectors of five kinds, and a new cluster state after each change.

While the API server is unreachable, the last state is kept: a webhook without Fabrics would refuse every pod once the
API server is reachable again.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.slots import SlottedRailNode, group_slots
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState, Namespace, PlannedFabric
from trackbed.cluster.webhook.fabrics import plan_fabric
from trackbed.cluster.webhook.metrics import MALFORMED_NODES
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import LONGEST_TEXT, Range, parse_range

SETTLE_SECONDS = 0.2
"""Pause after a change, so that several changes result in one new state."""
START_SECONDS = 60.0
"""Time limit for the first cluster state."""

_NAMESPACES = "/api/v1/namespaces"
_CACHED_RANGES = 8
_MAX_EVENTS = 10
"""Events about malformed nodes after one change."""
_MAX_QUOTED_CHARACTERS = 100

log = logging.getLogger(__name__)


class _LabelledMetadata(ObjectMetadata, frozen=True, rename="camel"):
    """Metadata with all labels and annotations."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Fabric(msgspec.Struct, frozen=True):
    """A Fabric, with its spec not decoded."""

    metadata: ObjectMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _Namespace(msgspec.Struct, frozen=True):
    """A Namespace (v1)."""

    metadata: _LabelledMetadata


class _PodRanges(msgspec.Struct, frozen=True, rename={"ranges": "podCIDRs"}):
    """The spec of a Node: the CIDRs of its pods."""

    ranges: tuple[str, ...] = ()


class _Address(msgspec.Struct, frozen=True):
    """An address in the status of a Node."""

    type: str
    address: str


class _Addresses(msgspec.Struct, frozen=True):
    """The status of a Node: its addresses."""

    addresses: tuple[_Address, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    """A Node (v1), reduced to its addresses."""

    metadata: ObjectMetadata
    spec: _PodRanges = _PodRanges()
    status: _Addresses = _Addresses()


class _Cidrs(msgspec.Struct, frozen=True):
    """The spec of a ServiceCIDR."""

    cidrs: tuple[str, ...] = ()


class _ServiceCidr(msgspec.Struct, frozen=True):
    """A ServiceCIDR (networking.k8s.io/v1)."""

    metadata: ObjectMetadata
    spec: _Cidrs = _Cidrs()


class MalformedNode(NamedTuple):
    """A Node with a text that is no address, where one is expected."""

    name: str
    uid: str
    text: str


class _Objects(NamedTuple):
    """The current objects of all watched kinds."""

    fabrics: list[_Fabric]
    railnodes: list[SlottedRailNode]
    namespaces: list[_Namespace]
    nodes: list[_Node]
    service_cidrs: list[_ServiceCidr]
    unreadable_fabrics: dict[str, str]
    """Fabric that cannot be decoded -> reason."""


class ClusterWatch:
    """A `server.StateSource` that watches the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed, self._is_read = asyncio.Event(), asyncio.Event()
        self._fabrics = Reflector(client, fabric.PATH, _Fabric, self._changed.set)
        self._railnodes = Reflector(client, railnode.PATH, SlottedRailNode, self._changed.set)
        self._namespaces = Reflector(client, _NAMESPACES, _Namespace, self._changed.set)
        self._nodes = Reflector(client, "/api/v1/nodes", _Node, self._changed.set)
        self._cidrs = Reflector(client, "/apis/networking.k8s.io/v1/servicecidrs", _ServiceCidr, self._changed.set)
        self._reflectors = (self._fabrics, self._railnodes, self._namespaces, self._nodes, self._cidrs)
        self._plans: dict[str, tuple[object, PlannedFabric | str]] = {}
        self._ranges: dict[frozenset[str], tuple[Range, ...]] = {}
        self._last_warning = ""
        self._malformed: tuple[MalformedNode, ...] = ()
        self._reported: frozenset[MalformedNode] = frozenset()
        self.state: ClusterState | None = None

    async def follow(self) -> None:
        """Keep `state` up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(self._log_warning))
            for reflector in self._reflectors:
                await reflector.synced.wait()
            while True:
                self._changed.clear()
                self.state = await asyncio.to_thread(self._build_state, self._copy_objects())
                self._is_read.set()
                await self._report_malformed()
                await self._changed.wait()
                await asyncio.sleep(SETTLE_SECONDS)

    async def wait_until_read(self) -> None:
        """Wait for the first state. Raises KubeError after START_SECONDS."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._is_read.wait()
        except TimeoutError as error:
            raise KubeError(self._last_warning or f"the cluster was not read within {START_SECONDS:.0f} s") from error

    async def fetch_namespace(self, name: str) -> Namespace:
        """Read a namespace from the cluster; return an empty one if it does not exist. Raises KubeError."""
        namespace = await self._client.find(join_path(_NAMESPACES, name), _Namespace)
        return _to_namespace(namespace) if namespace else Namespace()

    async def _report_malformed(self) -> None:
        """Count malformed nodes; log each once, and write an event about it."""
        MALFORMED_NODES.set(len(self._malformed))
        new = [node for node in self._malformed if node not in self._reported]
        self._reported = frozenset(self._malformed)
        for node in new[:_MAX_EVENTS]:
            note = f"{node.text!a} is no address; it is passed over where Fabrics are compared with addresses of nodes"
            log.warning("node %s: %s", node.name, note)
            regarding = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            event = Event("MalformedAddress", note, "Warning", "trackbed.dev/webhook", "ReadCluster")
            await record_event(self._client, regarding, event)

    def _log_warning(self, warning: str) -> None:
        self._last_warning = warning
        log.warning("the last cluster state is kept: %s", warning)

    def _copy_objects(self) -> _Objects:
        """Return lists of the current objects, which another thread may read."""
        return _Objects(
            list(self._fabrics.objects.values()),
            list(self._railnodes.objects.values()),
            list(self._namespaces.objects.values()),
            list(self._nodes.objects.values()),
            list(self._cidrs.objects.values()),
            {name: item.reason for name, item in self._fabrics.unreadable.items()},
        )

    def _build_state(self, objects: _Objects) -> ClusterState:
        slots = group_slots(objects.railnodes)
        ranges = ClusterRanges(
            self._collapse_ranges(cidr for service_cidr in objects.service_cidrs for cidr in service_cidr.spec.cidrs),
            self._collapse_ranges(cidr for node in objects.nodes for cidr in node.spec.ranges),
            self._collapse_ranges(_iter_addresses(objects.nodes)),
        )
        self._malformed = tuple(_find_malformed_nodes(objects.nodes))
        written_by_admins = ClusterRanges(services=ranges.services)  # a node's false address must not break a Fabric
        plans = {
            item.metadata.name: self._plan_fabric(item, slots.get(item.metadata.name, {}), written_by_admins)
            for item in objects.fabrics
        }
        return ClusterState(
            {name: plan for name, plan in plans.items() if isinstance(plan, PlannedFabric)},
            objects.unreadable_fabrics | {name: error for name, error in plans.items() if isinstance(error, str)},
            {namespace.metadata.name: _to_namespace(namespace) for namespace in objects.namespaces},
            slots,
            ranges,
        )

    def _plan_fabric(self, item: _Fabric, slots: dict[str, int], ranges: ClusterRanges) -> PlannedFabric | str:
        """Return a planned Fabric, or the reason why it cannot be planned; cached until an input changes."""
        name, key = item.metadata.name, (bytes(item.spec), slots, ranges)
        cached = self._plans.get(name)
        if cached is None or cached[0] != key:
            document = {"apiVersion": railnode.API_VERSION, "kind": "Fabric", "metadata": {"name": name}}
            try:
                plan: PlannedFabric | str = plan_fabric(
                    {**document, "spec": msgspec.json.decode(item.spec)}, slots, ranges
                )
            except SpecError as error:
                plan = error.problems[0].message
            except Exception as error:  # a Fabric that nobody foresaw must not end the webhook
                log.exception("fabric %s cannot be planned", name)
                plan = f"a defect of Trackbed, please report it with the webhook's log: {error!r}"
            cached = self._plans[name] = (key, plan)
        return cached[1]

    def _collapse_ranges(self, cidrs: Iterable[str]) -> tuple[Range, ...]:
        """Return the fewest ranges that cover the CIDRs; cached, since nodes change more often than their addresses."""
        key = frozenset(text for text in cidrs if len(text) <= LONGEST_TEXT)
        if key not in self._ranges:
            if len(self._ranges) >= _CACHED_RANGES:
                self._ranges.clear()
            self._ranges[key] = _collapse_cidrs(key)
        return self._ranges[key]


def _to_namespace(namespace: _Namespace) -> Namespace:
    return Namespace(namespace.metadata.labels, namespace.metadata.annotations)


def _iter_addresses(nodes: Iterable[_Node]) -> Iterator[str]:
    """Yield the addresses of nodes; a text with a prefix length would stand for a whole network."""
    for node in nodes:
        yield from (text for text in _iter_address_texts(node) if "/" not in text)


def _iter_address_texts(node: _Node) -> Iterator[str]:
    return (item.address for item in node.status.addresses if item.type in {"InternalIP", "ExternalIP"})


def _find_malformed_nodes(nodes: Iterable[_Node]) -> Iterator[MalformedNode]:
    """Yield the nodes with an address or a range that is none: any kubelet may write one."""
    for node in nodes:
        malformed = [text for text in node.spec.ranges if _parse_cidr(text) is None]
        malformed += [text for text in _iter_address_texts(node) if "/" in text or _parse_cidr(text) is None]
        if malformed:
            yield MalformedNode(node.metadata.name, node.metadata.uid, malformed[0][:_MAX_QUOTED_CHARACTERS])


def _collapse_cidrs(cidrs: Iterable[str]) -> tuple[Range, ...]:
    """Return the fewest ranges that cover the CIDRs; texts that are no CIDR are passed over."""
    networks: list[Any] = [_parse_cidr(cidr) for cidr in cidrs]
    v4 = collapse_addresses(network for network in networks if isinstance(network, IPv4Network))
    v6 = collapse_addresses(network for network in networks if isinstance(network, IPv6Network))
    return tuple(parse_range(str(network)) for network in (*v4, *v6))


def _parse_cidr(text: str) -> IPv4Network | IPv6Network | None:
    """Return the network of a CIDR or an address; None if it is neither. The scope of an IPv6 address is dropped."""
    return _parse_short_cidr(text) if len(text) <= LONGEST_TEXT else None


@lru_cache(maxsize=1 << 16)
def _parse_short_cidr(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.partition("%")[0], strict=False)
    except ValueError:
        return None
