"""Watches the cluster for reviews: reflectors of five kinds, and a new cluster state after each change.

While the API server is unreachable, the last state stays in use. A webhook that dropped its Fabrics would refuse every
pod as soon as the API server is reachable again.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any, NamedTuple

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState, Namespace, PlannedFabric
from trackbed.cluster.webhook.fabrics import plan_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import Range, parse_range

SETTLE_SECONDS = 0.2
"""Changes within this time of each other make one new state."""
START_SECONDS = 60.0
"""Deadline of the first reading."""

_NAMESPACES = "/api/v1/namespaces"
_CACHED_RANGES = 8

log = logging.getLogger(__name__)


class _LabelledMetadata(ObjectMetadata, frozen=True, rename="camel"):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Fabric(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _Slot(msgspec.Struct, frozen=True):
    fabric: str = ""
    slot: int | None = None


class _SlottedRailNode(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: _Slot = _Slot()


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _LabelledMetadata


class _PodRanges(msgspec.Struct, frozen=True, rename={"ranges": "podCIDRs"}):
    ranges: tuple[str, ...] = ()


class _Address(msgspec.Struct, frozen=True):
    type: str
    address: str


class _Addresses(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: _PodRanges = _PodRanges()
    status: _Addresses = _Addresses()


class _Cidrs(msgspec.Struct, frozen=True):
    cidrs: tuple[str, ...] = ()


class _ServiceCidr(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: _Cidrs = _Cidrs()


class _Objects(NamedTuple):
    fabrics: list[_Fabric]
    railnodes: list[_SlottedRailNode]
    namespaces: list[_Namespace]
    nodes: list[_Node]
    service_cidrs: list[_ServiceCidr]


class ClusterWatch:
    """A `server.StateSource` that follows the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed, self._is_read = asyncio.Event(), asyncio.Event()
        self._fabrics = Reflector(client, fabric.PATH, _Fabric, self._changed.set)
        self._railnodes = Reflector(client, railnode.PATH, _SlottedRailNode, self._changed.set)
        self._namespaces = Reflector(client, _NAMESPACES, _Namespace, self._changed.set)
        self._nodes = Reflector(client, "/api/v1/nodes", _Node, self._changed.set)
        self._cidrs = Reflector(client, "/apis/networking.k8s.io/v1/servicecidrs", _ServiceCidr, self._changed.set)
        self._reflectors = (self._fabrics, self._railnodes, self._namespaces, self._nodes, self._cidrs)
        self._plans: dict[str, tuple[object, PlannedFabric | str]] = {}
        self._ranges: dict[frozenset[str], tuple[Range, ...]] = {}
        self._trouble = ""
        self.state: ClusterState | None = None

    async def follow(self) -> None:
        """Follow the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(self._warn))
            for reflector in self._reflectors:
                await reflector.synced.wait()
            while True:
                self._changed.clear()
                self.state = await asyncio.to_thread(self._build_state, self._copy_objects())
                self._is_read.set()
                await self._changed.wait()
                await asyncio.sleep(SETTLE_SECONDS)

    async def wait_until_read(self) -> None:
        """Wait until the cluster has been read. Raises KubeError after START_SECONDS."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._is_read.wait()
        except TimeoutError as error:
            raise KubeError(self._trouble or f"the cluster was not read within {START_SECONDS:.0f} s") from error

    async def fetch_namespace(self, name: str) -> Namespace:
        """Read a namespace; return an empty one where there is none. Raises KubeError."""
        try:
            return _to_namespace(await self._client.get(f"{_NAMESPACES}/{name}", _Namespace))
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return Namespace()

    def _warn(self, trouble: str) -> None:
        self._trouble = trouble
        log.warning("what was seen last stays in use: %s", trouble)

    def _copy_objects(self) -> _Objects:
        """Return copies of the lists of objects, for another thread."""
        return _Objects(
            list(self._fabrics.objects.values()),
            list(self._railnodes.objects.values()),
            list(self._namespaces.objects.values()),
            list(self._nodes.objects.values()),
            list(self._cidrs.objects.values()),
        )

    def _build_state(self, objects: _Objects) -> ClusterState:
        slots = _group_slots(objects.railnodes)
        ranges = ClusterRanges(
            self._collapse(cidr for service_cidr in objects.service_cidrs for cidr in service_cidr.spec.cidrs),
            self._collapse(cidr for node in objects.nodes for cidr in node.spec.ranges),
            self._collapse(_iter_addresses(objects.nodes)),
        )
        plans = {
            item.metadata.name: self._plan(item, slots.get(item.metadata.name, {}), ranges) for item in objects.fabrics
        }
        return ClusterState(
            {name: plan for name, plan in plans.items() if isinstance(plan, PlannedFabric)},
            {name: error for name, error in plans.items() if isinstance(error, str)},
            {namespace.metadata.name: _to_namespace(namespace) for namespace in objects.namespaces},
            slots,
            ranges,
        )

    def _plan(self, item: _Fabric, slots: dict[str, int], ranges: ClusterRanges) -> PlannedFabric | str:
        """Return a Fabric's plan, or the error; computed again only after a change of its input."""
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
            cached = self._plans[name] = (key, plan)
        return cached[1]

    def _collapse(self, cidrs: Iterable[str]) -> tuple[Range, ...]:
        """Return the fewest ranges with these addresses, cached since nodes change often, but not their addresses."""
        key = frozenset(cidrs)
        if key not in self._ranges:
            if len(self._ranges) >= _CACHED_RANGES:
                self._ranges.clear()
            self._ranges[key] = _collapse_cidrs(key)
        return self._ranges[key]


def _to_namespace(namespace: _Namespace) -> Namespace:
    return Namespace(namespace.metadata.labels, namespace.metadata.annotations)


def _group_slots(railnodes: Iterable[_SlottedRailNode]) -> dict[str, dict[str, int]]:
    slots: dict[str, dict[str, int]] = {}
    for item in railnodes:
        if item.spec.slot is not None:
            slots.setdefault(item.spec.fabric, {})[item.metadata.name] = item.spec.slot
    return slots


def _iter_addresses(nodes: Iterable[_Node]) -> Iterator[str]:
    for node in nodes:
        yield from (item.address for item in node.status.addresses if item.type in {"InternalIP", "ExternalIP"})


def _collapse_cidrs(cidrs: Iterable[str]) -> tuple[Range, ...]:
    networks: list[Any] = [ip_network(cidr, strict=False) for cidr in cidrs]
    v4 = collapse_addresses(network for network in networks if isinstance(network, IPv4Network))
    v6 = collapse_addresses(network for network in networks if isinstance(network, IPv6Network))
    return tuple(parse_range(str(network)) for network in (*v4, *v6))
