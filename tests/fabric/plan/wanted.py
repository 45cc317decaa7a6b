"""Fabrics in short notation, with ranges from ample to tight."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from hypothesis import strategies as st

from trackbed.fabric.model.fabric import Fabric


class Wanted(NamedTuple):
    """The varying parts of a Fabric."""

    addressing: dict[str, str]
    rails: int = 2
    nodes: int = 4
    nodes_per_unit: int = 32

    def fabric(self, hosts: str | None = None) -> Fabric:
        """Build the Fabric, with other hosts if given."""
        spec = {
            "nodes": [{"hosts": hosts or f"n[0-{self.nodes - 1}]"}],
            "rails": str(self.rails),
            "nodesPerUnit": str(self.nodes_per_unit),
            "addressing": self.addressing,
            "pods": {"mode": "move"},
            "otherRanges": {"docker": []},
        }
        document = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "t"}, "spec": spec}
        return Fabric.model_validate(document)


def _range(draw: st.DrawFn, version: int, shortest: int, longest: int) -> str:
    """Draw a range within 10.0.0.0/8 or fd00::/8, since others are reserved."""
    bits, first = (32, 10) if version == 4 else (128, 0xFD)
    prefix = draw(st.integers(shortest, longest))
    base = (first << (bits - 8)) + (draw(st.integers(0, (1 << (prefix - 8)) - 1)) << (bits - prefix))
    return f"{ipaddress.IPv4Address(base) if version == 4 else ipaddress.IPv6Address(base)}/{prefix}"


@st.composite
def wanted(draw: st.DrawFn) -> Wanted:
    """Draw any scheme, IPv4, IPv6 or both, with ranges from ample to tight."""
    scheme = draw(st.sampled_from(["shared-subnet", "node-subnet", "point-to-point", "spectrum-x"]))
    versions = draw(st.sampled_from([(4,), (6,), (4, 6)]))
    addressing = {"scheme": scheme}
    for version in versions:
        longest = 24 if version == 4 else 118
        addressing[f"ipv{version}"] = _range(draw, version, longest - 12, longest)
        if version == 6:
            addressing["ipv6RailPrefix"] = str(draw(st.integers(longest + 3, 124)))
    if scheme == "shared-subnet":
        addressing["podAddresses"] = str(draw(st.integers(0, 40)))
        addressing["gateway"] = draw(st.sampled_from(["none", "first", "last"]))
    if scheme == "node-subnet":
        addressing["ipv4NodePrefix"] = str(draw(st.integers(26, 29)))
        addressing["ipv6NodePrefix"] = str(draw(st.integers(120, 124)))
    if scheme == "spectrum-x":
        addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"}
    return Wanted(
        addressing,
        rails=draw(st.integers(1, 8)),
        nodes=draw(st.integers(1, 80)),
        nodes_per_unit=draw(st.sampled_from([1, 2, 32, 128])),
    )
