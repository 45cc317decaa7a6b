"""What the leaves of a lab do to frames of the rails: rates, losses, small MTUs, cables in another leaf, slow uplinks.

The switch reads LAB-FOLDER/net/leaves.json a few times a second; without it all frames pass at once. A frame passes
when its sender's port, the uplinks between the leaves of both ends, and its receiver's port are free again: a port of
R Gb/s is taken for 8 bits / R of each byte, in each direction. Frames wait in the switch, as in a leaf with PFC, whose
senders lose nothing; a frame is dropped where QUEUE_BYTES wait for one link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from trackbed_lab.vm.machine import LabShape

QUEUE_BYTES = 4 << 20
"""Most bytes that wait for one link. perftest's flows have up to half a second of their rate under way."""
_FILE = "net/leaves.json"
_ETHERNET_BYTES = 18
"""Header of a frame, with a VLAN tag: what is not counted in an MTU."""
_BYTES_PER_GBIT = 1e9 / 8


class PortSettings(msgspec.Struct, frozen=True):
    """The leaf's end of one port."""

    rate_share: float = 1.0
    """Share of the lab's rate."""
    loss: float = 0.0
    """Share of frames that are dropped, in each direction."""
    plugged_into: int | None = None
    """The rail whose leaf the cable is plugged into; None: the port's own."""


class LeafSettings(msgspec.Struct, frozen=True):
    """One leaf."""

    mtu_bytes: int | None = None
    """Largest packet; None: any."""
    uplink_share: float | None = None
    """Rate that all its links to other leaves have together, as a share of one port's; None: no limit."""


class SwitchSettings(msgspec.Struct, frozen=True):
    """What all leaves do; ports by `name_port`, leaves by name."""

    gbps: float | None = None
    """Rate of each port, in each direction; None: no limit."""
    ports: Mapping[str, PortSettings] = {}
    leaves: Mapping[str, LeafSettings] = {}


class CablePort(NamedTuple):
    """The server and the rail of a port: one end of a cable."""

    server: int
    rail: int


def name_port(server: str, rail: int) -> str:
    """Return the name of a port in the settings."""
    return f"{server}/{rail}"


def write_settings(folder: Path, settings: SwitchSettings) -> None:
    """Replace the settings of a running lab; the switch reads them within REFUSED_SECONDS (module switch)."""
    path = folder / _FILE
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(settings))
    new.replace(path)


def read_settings(folder: Path) -> SwitchSettings:
    """Return the settings of a lab; the defaults if there are none.

    Raises:
        msgspec.DecodeError: the file is not as `write_settings` makes it.
    """
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=SwitchSettings)
    except FileNotFoundError:
        return SwitchSettings()


def swap_cables(settings: SwitchSettings, server: str, rail: int, other: int) -> SwitchSettings:
    """Return settings in which two ports of a server are plugged into each other's leaf."""
    swapped = {name_port(server, rail): PortSettings(plugged_into=other)}
    swapped[name_port(server, other)] = PortSettings(plugged_into=rail)
    return msgspec.structs.replace(settings, ports={**settings.ports, **swapped})


@dataclass(slots=True)
class Leaves:
    """All leaves, and until when each of their links is taken."""

    shape: LabShape
    settings: SwitchSettings = field(default_factory=SwitchSettings)
    taken: dict[tuple[str, str], float] = field(default_factory=dict)
    """By link and direction, in seconds of the caller's clock."""
    generator: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - chosen, not secret

    def get_port(self, port: CablePort) -> PortSettings:
        """Return the settings of a port."""
        return self.settings.ports.get(self._name(port), _SOUND) if self.settings.ports else _SOUND

    def find_rail(self, port: CablePort) -> int:
        """Return the rail of the leaf that a port is plugged into."""
        plugged_into = self.get_port(port).plugged_into
        return port.rail if plugged_into is None else plugged_into

    def accepts(self, port: CablePort, size: int) -> bool:
        """Return whether a frame of `size` bytes passes a port: it is not too large, and not lost."""
        if not (self.settings.ports or self.settings.leaves):
            return True
        leaf = self._get_leaf(port)
        if leaf.mtu_bytes is not None and size > leaf.mtu_bytes + _ETHERNET_BYTES:
            return False
        loss = self.get_port(port).loss
        return not loss or self.generator.random() >= loss

    def enter(self, source: CablePort, size: int, now: float) -> float | None:
        """Return when a frame of `size` bytes has passed its sender's port; None if too much waits there already."""
        return self._take([((self._name(source), "in"), self.get_port(source).rate_share)], size, now)

    def leave(self, source: CablePort, target: CablePort, size: int, now: float) -> float | None:
        """Return when a frame has passed everything after its sender's port; None if too much waits there already."""
        links = [((self._name(target), "out"), self.get_port(target).rate_share)]
        if self._name_leaf(source) != self._name_leaf(target):
            for port, direction in ((source, "up"), (target, "down")):
                share = self._get_leaf(port).uplink_share
                links += [] if share is None else [((self._name_leaf(port), direction), share)]
        return self._take(links, size, now)

    def _take(self, links: Sequence[tuple[tuple[str, str], float]], size: int, now: float) -> float | None:
        """Take links, each with its share of the rate, for a frame; return when the last of them is free again."""
        gbps = self.settings.gbps
        if gbps is None:
            return now
        rates = {link: gbps * share * _BYTES_PER_GBIT for link, share in links}
        free = {link: max(self.taken.get(link, now), now) for link in rates}
        if any((free[link] - now) * rate > QUEUE_BYTES for link, rate in rates.items()):
            return None
        self.taken |= {link: free[link] + size / rate for link, rate in rates.items()}
        return max(self.taken[link] for link in rates)

    def _name(self, port: CablePort) -> str:
        return name_port(f"node-{port.server}", port.rail)

    def _name_leaf(self, port: CablePort) -> str:
        return self.shape.list_leaves(port.server)[self.find_rail(port)]

    def _get_leaf(self, port: CablePort) -> LeafSettings:
        return self.settings.leaves.get(self._name_leaf(port), _OPEN)


_SOUND, _OPEN = PortSettings(), LeafSettings()
