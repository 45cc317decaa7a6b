"""What reviews go by, read from the API server again and again, whole.

While the API server does not answer, what was read last goes on being used: a webhook that forgot its Fabrics would
refuse every pod as soon as the API server is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Any

from trackbed.admission.fabrics import prepared
from trackbed.admission.known import Known, Namespace, Planned, Ranges, namespace_of
from trackbed.kube.client import Client, Object
from trackbed.kube.errors import KubeError, RefusedError, UnknownKindError
from trackbed.spec.problems import SpecError
from trackbed.spec.ranges import Range, parse_range

OWN = "trackbed.dev/v1alpha1"
READ_SECONDS = 5.0
"""How long after a change reviews go by it, at most."""

_NOT_FOUND = 404

log = logging.getLogger(__name__)


class Watched:
    """A `server.Source` that reads the cluster every few seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._made: dict[str, tuple[object, Planned | str]] = {}
        self.known: Known | None = None

    async def follow(self) -> None:
        """Read for ever."""
        while True:
            try:
                self.known = await asyncio.to_thread(self.read)
            except KubeError as error:
                log.warning("the cluster cannot be read, its last state stays in use: %s", error)
            await asyncio.sleep(READ_SECONDS)

    async def namespace(self, name: str) -> Namespace:
        """A namespace as it is now; an empty one where there is none. Raises KubeError."""
        found = await asyncio.to_thread(self._client.find, "v1", "Namespace", name)
        return namespace_of(found or {})

    def read(self) -> Known:
        """The whole cluster. Raises KubeError."""
        slots = self._slots()
        ranges = self._ranges()
        fabrics: dict[str, Planned] = {}
        broken: dict[str, str] = {}
        for one in self._list(OWN, "Fabric"):
            name = one["metadata"]["name"]
            found = self._planned(one, slots.get(name, {}), ranges)
            if isinstance(found, Planned):
                fabrics[name] = found
            else:
                broken[name] = found
        spaces = {one["metadata"]["name"]: namespace_of(one) for one in self._client.list("v1", "Namespace")}
        return Known(fabrics, broken, spaces, slots, ranges)

    def _planned(self, one: Object, slots: dict[str, int], ranges: Ranges) -> Planned | str:
        """A Fabric's plan, or why there is none; worked out again only when something it depends on is another."""
        name, of = one["metadata"]["name"], (one.get("spec"), slots, ranges)
        held = self._made.get(name)
        if held is None or held[0] != of:
            try:
                found: Planned | str = prepared(one, slots, ranges)
            except SpecError as error:
                found = error.problems[0].message
            held = self._made[name] = (of, found)
        return held[1]

    def _slots(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for one in self._list(OWN, "RailNode"):
            spec = one.get("spec") or {}
            if isinstance(spec.get("slot"), int):
                found.setdefault(str(spec.get("fabric")), {})[one["metadata"]["name"]] = spec["slot"]
        return found

    def _ranges(self) -> Ranges:
        services = [cidr for one in self._list("networking.k8s.io/v1", "ServiceCIDR") for cidr in one["spec"]["cidrs"]]
        nodes = list(self._client.list("v1", "Node"))
        pods = [cidr for one in nodes for cidr in (one.get("spec") or {}).get("podCIDRs") or ()]
        return Ranges(_ranges(services), _ranges(pods), _ranges(_addresses(nodes)))

    def _list(self, api_version: str, kind: str) -> Iterator[Object]:
        """All objects of a kind; none where the server has no such kind, or none any more."""
        try:
            yield from self._client.list(api_version, kind)
        except UnknownKindError:
            return
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise


def _addresses(nodes: Iterable[Object]) -> Iterator[str]:
    for node in nodes:
        held: list[dict[str, Any]] = (node.get("status") or {}).get("addresses") or []
        yield from (one["address"] for one in held if one.get("type") in {"InternalIP", "ExternalIP"})


def _ranges(cidrs: Iterable[str]) -> tuple[Range, ...]:
    """As few ranges as hold the same addresses: 12,500 nodes' neighbouring ranges become one."""
    found = [ip_network(cidr, strict=False) for cidr in cidrs]
    v4 = collapse_addresses(one for one in found if isinstance(one, IPv4Network))
    v6 = collapse_addresses(one for one in found if isinstance(one, IPv6Network))
    return tuple(parse_range(str(one)) for one in (*v4, *v6))
