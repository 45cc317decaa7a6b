"""What reviews go by, kept as the API server has it: reflectors of five kinds, and a new value after each change.

While the API server does not answer, what was seen last goes on being used: a webhook that forgot its Fabrics would
refuse every pod as soon as the API server is back.
"""

from __future__ import annotations

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
from trackbed.cluster.webhook.fabrics import prepared
from trackbed.cluster.webhook.known import Known, Namespace, Planned, Ranges
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import Range, parse_range

SETTLE_SECONDS = 0.2
"""Changes that come within so long of each other are taken together; reviews go by them after that."""
START_SECONDS = 60.0
"""How long the first reading may take."""

_NAMESPACES = "/api/v1/namespaces"

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


class _Space(msgspec.Struct, frozen=True):
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


class _Services(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: _Cidrs = _Cidrs()


class _Cluster(NamedTuple):
    fabrics: list[_Fabric]
    railnodes: list[_SlottedRailNode]
    spaces: list[_Space]
    nodes: list[_Node]
    services: list[_Services]


class Watched:
    """A `server.Source` that follows the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed, self._begun = asyncio.Event(), asyncio.Event()
        self._fabrics = Reflector(client, fabric.PATH, _Fabric, self._changed.set)
        self._railnodes = Reflector(client, railnode.PATH, _SlottedRailNode, self._changed.set)
        self._spaces = Reflector(client, _NAMESPACES, _Space, self._changed.set)
        self._nodes = Reflector(client, "/api/v1/nodes", _Node, self._changed.set)
        self._services = Reflector(client, "/apis/networking.k8s.io/v1/servicecidrs", _Services, self._changed.set)
        self._all = (self._fabrics, self._railnodes, self._spaces, self._nodes, self._services)
        self._made: dict[str, tuple[object, Planned | str]] = {}
        self._told: dict[frozenset[str], tuple[Range, ...]] = {}
        self._trouble = ""
        self.known: Known | None = None

    async def follow(self) -> None:
        """Follow the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in self._all:
                group.create_task(one.run(self._warn))
            for one in self._all:
                await one.synced.wait()
            while True:
                self._changed.clear()
                self.known = await asyncio.to_thread(self._read, self._copied())
                self._begun.set()
                await self._changed.wait()
                await asyncio.sleep(SETTLE_SECONDS)

    async def begun(self) -> None:
        """Wait until there is something to go by. Raises KubeError where that takes too long."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._begun.wait()
        except TimeoutError as error:
            raise KubeError(self._trouble or f"the cluster was not read within {START_SECONDS:.0f} s") from error

    async def namespace(self, name: str) -> Namespace:
        """A namespace as it is now; an empty one where there is none. Raises KubeError."""
        try:
            return _namespace(await self._client.get(f"{_NAMESPACES}/{name}", _Space))
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return Namespace()

    def _warn(self, trouble: str) -> None:
        self._trouble = trouble
        log.warning("what was seen last stays in use: %s", trouble)

    def _copied(self) -> _Cluster:
        """All objects as they are now, for a thread of its own."""
        return _Cluster(
            list(self._fabrics.objects.values()),
            list(self._railnodes.objects.values()),
            list(self._spaces.objects.values()),
            list(self._nodes.objects.values()),
            list(self._services.objects.values()),
        )

    def _read(self, cluster: _Cluster) -> Known:
        slots = _slots(cluster.railnodes)
        ranges = Ranges(
            self._ranges(cidr for one in cluster.services for cidr in one.spec.cidrs),
            self._ranges(cidr for one in cluster.nodes for cidr in one.spec.ranges),
            self._ranges(_addresses(cluster.nodes)),
        )
        found = {
            one.metadata.name: self._planned(one, slots.get(one.metadata.name, {}), ranges) for one in cluster.fabrics
        }
        planned = {name: one for name, one in found.items() if isinstance(one, Planned)}
        broken = {name: one for name, one in found.items() if isinstance(one, str)}
        spaces = {one.metadata.name: _namespace(one) for one in cluster.spaces}
        return Known(planned, broken, spaces, slots, ranges)

    def _planned(self, one: _Fabric, slots: dict[str, int], ranges: Ranges) -> Planned | str:
        """A Fabric's plan, or why there is none; worked out again only when something it depends on is another."""
        name, of = one.metadata.name, (bytes(one.spec), slots, ranges)
        held = self._made.get(name)
        if held is None or held[0] != of:
            document = {"apiVersion": railnode.API_VERSION, "kind": "Fabric", "metadata": {"name": name}}
            try:
                found: Planned | str = prepared({**document, "spec": msgspec.json.decode(one.spec)}, slots, ranges)
            except SpecError as error:
                found = error.problems[0].message
            held = self._made[name] = (of, found)
        return held[1]

    def _ranges(self, cidrs: Iterable[str]) -> tuple[Range, ...]:
        """As few ranges as hold the same addresses; nodes change all the time, their addresses hardly ever."""
        key = frozenset(cidrs)
        if key not in self._told:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            self._told[key] = _collapsed(key)
        return self._told[key]


_REMEMBERED = 8


def _namespace(one: _Space) -> Namespace:
    return Namespace(one.metadata.labels, one.metadata.annotations)


def _slots(railnodes: Iterable[_SlottedRailNode]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in railnodes:
        if one.spec.slot is not None:
            found.setdefault(one.spec.fabric, {})[one.metadata.name] = one.spec.slot
    return found


def _addresses(nodes: Iterable[_Node]) -> Iterator[str]:
    for node in nodes:
        yield from (one.address for one in node.status.addresses if one.type in {"InternalIP", "ExternalIP"})


def _collapsed(cidrs: Iterable[str]) -> tuple[Range, ...]:
    """12,500 nodes' neighbouring ranges become one."""
    found: list[Any] = [ip_network(cidr, strict=False) for cidr in cidrs]
    v4 = collapse_addresses(one for one in found if isinstance(one, IPv4Network))
    v6 = collapse_addresses(one for one in found if isinstance(one, IPv6Network))
    return tuple(parse_range(str(one)) for one in (*v4, *v6))
