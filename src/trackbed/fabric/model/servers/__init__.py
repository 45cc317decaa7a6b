"""The catalogue of servers: what is published about machines that are sold or rented, by name.

nodes:
- hosts: gpu-[0-63]
server: dgx-h100      # its ports, their NIC and its GPUs are known before a machine is there
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import yaml

FILES = ("nvidia.yaml", "makers.yaml", "clouds.yaml")


class Gpus(msgspec.Struct, frozen=True):
    """The GPUs of a server."""

    count: int
    model: str


class ServerNic(msgspec.Struct, frozen=True, omit_defaults=True):
    """The NIC that the rails are of."""

    model: str
    id: str | None = None
    """PCI vendor and device; None where a server is sold with several."""
    gbps: float | None = None
    """Of a port."""


class AsideNic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A NIC that is no rail."""

    role: str
    pci: str | None = None
    nic: str | None = None
    id: str | None = None


class CatalogueServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One server."""

    model: str
    gpus: Gpus
    nic: ServerNic
    source: str
    products: tuple[str, ...] = ()
    """What /sys/class/dmi/id/product_name says on it, or the name of a cloud's shape."""
    ports: tuple[str, ...] | None = None
    """PCI addresses of the rails in rail order; None where nobody has published them."""
    aside: tuple[AsideNic, ...] = ()
    certainty: Literal["documented", "inferred"] = "documented"


@cache
def load_servers() -> dict[str, CatalogueServer]:
    """All servers by name."""
    found: dict[str, CatalogueServer] = {}
    for name in FILES:
        raw = files("trackbed.fabric.model.servers").joinpath(name).read_bytes()
        found |= msgspec.convert(yaml.load(raw, yaml.CSafeLoader), dict[str, CatalogueServer])
    return found
