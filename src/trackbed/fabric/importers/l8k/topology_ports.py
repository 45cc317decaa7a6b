"""Ports of hosts in a topology, with the addresses that l8k's CIDRPools give them, by PCI address."""

from collections.abc import Iterator, Sequence

from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.l8k.groups import L8kGroup
from trackbed.fabric.importers.l8k.profile import get_number
from trackbed.fabric.importers.spectrum_x import SpectrumXScheme, build_interface, compute_address
from trackbed.fabric.importers.topology import HostLink
from trackbed.fabric.importers.tree import Tree, get_text, get_tree, is_text
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, V6

_DEFAULT_OCTETS = {False: 172, True: 10}
"""hostFirstOctet by whether the topology has three tiers (SpectrumXDefaultHostFirstOctet in l8k's pkg/config)."""
_MTU_BYTES = 9000


def read_scheme(tree: Tree, links: Sequence[HostLink], problems: list[Problem]) -> SpectrumXScheme:
    """Return the addressing: as the profile says, else as the links look."""
    section = get_tree(tree, "profile", "spectrumX")
    tiers, mode = get_text(section, "topologyType"), get_text(section, "multiplaneMode")
    is_3_tier = tiers == "3-tier" if tiers else any(link.position.pod for link in links)
    has_planes = mode in {"swplb", "hwplb"} if mode else any(link.position.plane for link in links)
    octet = get_number(section, "hostFirstOctet", 0, problems) or _DEFAULT_OCTETS[is_3_tier]
    ip_version = V6 if is_text(section, "ipVersion", "ipv6") else V4
    return SpectrumXScheme(is_3_tier, has_planes, octet, ip_version=ip_version)


class TopologyReader(ValueParser):
    """Computes the ports of one host and collects `problems`."""

    def __init__(self, host: str, scheme: SpectrumXScheme, *, has_plane_addresses: bool) -> None:
        super().__init__(host)
        self._scheme = scheme
        self._has_plane_addresses = has_plane_addresses

    def read_interfaces(self, links: Sequence[HostLink], group: L8kGroup | None) -> Iterator[Interface]:
        """Yield the ports of a host; those of one rail but several planes share an address unless planes have own."""
        known = set()
        for link in links:
            position = link.position if self._has_plane_addresses else link.position._replace(plane=0)
            if position in known:
                continue
            known.add(position)
            try:
                address = compute_address(self._scheme, position)
            except ValueError as error:
                self.add_problem("bad-position", f"rail {position.rail} has no address: {error}", link.place)
                continue
            name = self._find_pci(link, group) if group else self.parse_name(link.interface, link.place)
            yield build_interface(self.host, name, address, link.place, _MTU_BYTES)

    def _find_pci(self, link: HostLink, group: L8kGroup) -> str:
        """Return the PCI address of a port; empty if the group has none on its rail."""
        ports = group.ports.get(link.position.rail, [])
        plane = link.position.plane if self._has_plane_addresses else 0
        if plane < len(ports):
            return ports[plane]
        message = f"group {group.name!r} has no port on rail {link.position.rail}, plane {plane}; it has no selector"
        self.add_problem("no-ports", message, link.place)
        return ""
