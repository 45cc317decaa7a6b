"""The ports of RCP's hosts, with the addresses that RCP gives them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.rcp.config import RcpConfig
from trackbed.fabric.importers.rcp.files import RcpSite
from trackbed.fabric.importers.spectrum_x import Position, build_interface, compute_address
from trackbed.fabric.importers.topology import read_ordinal
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.text_syntax import PCI

_MTU_BYTES = 9000
"""MTU of the ports. The configuration has none."""


class PlacedPort(NamedTuple):
    """A port of a host: its position, and the place that tells it."""

    position: Position
    place: Place


def list_ports(site: RcpSite, problems: list[Problem]) -> dict[str, list[PlacedPort]]:
    """Return the ports of each host: those of the topology if there is one, else those of the inventory's hosts."""
    ports: dict[str, list[PlacedPort]] = {}
    for link in site.links:
        ports.setdefault(link.host, []).append(PlacedPort(link.position, link.place))
    if ports:
        return ports
    for host, place in site.hosts.items():
        unit, index = read_ordinal(host, "su"), read_ordinal(host, "h")
        if unit is None or index is None:
            message = f"the name {host!r} does not tell the unit and the number of the host, as hgx-su00-h00 does"
            problems.append(Problem("bad-host", message, place=place, severity="warning"))
            continue
        pod, planes = read_ordinal(host, "pod") or 0, site.config.planes
        ports[host] = [
            PlacedPort(Position(port // planes, unit, index, pod, port % planes), place)
            for port in range(len(site.config.ports))
        ]
    return ports


class PortReader(ValueParser):
    """Computes the ports of one host and collects `problems`."""

    def __init__(self, host: str, config: RcpConfig) -> None:
        super().__init__(host)
        self._config = config

    def read_interfaces(self, ports: Iterable[PlacedPort]) -> Iterator[Interface]:
        """Yield the ports with their addresses; report those that have none."""
        scheme = self._config.scheme
        for position, place in ports:
            try:
                address = compute_address(scheme, position)
            except ValueError as error:
                self.add_problem("bad-position", f"rail {position.rail} has no address: {error}", place)
                continue
            yield build_interface(self.host, self._read_name(position, place), address, place, _MTU_BYTES)

    def _read_name(self, position: Position, place: Place) -> str:
        """Return the name or PCI address of a port; empty if the configuration lists none."""
        index = position.rail * self._config.planes + position.plane
        if index >= len(self._config.ports):
            self.add_problem("no-ports", f"config.yaml lists no port for rail {position.rail}", place)
            return ""
        name = self._config.ports[index]
        return name if PCI.fullmatch(name) else self.parse_name(name, place)
