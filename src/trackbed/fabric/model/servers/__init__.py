"""The catalogue of servers: published facts about servers and cloud machines, by name.

nodes:
- hosts: gpu-[0-63]
  server: dgx-h100      # its ports, their NIC and its GPUs are known in advance
"""

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import yaml

from trackbed.fabric.gpus import GPU_RESOURCE

FILES = ("nvidia.yaml", "makers.yaml", "clouds.yaml")


class Gpus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The GPUs of a server."""

    count: int
    model: str
    resource: str = GPU_RESOURCE
    """Extended resource of their device plugin."""


class ServerNic(msgspec.Struct, frozen=True, omit_defaults=True):
    """The NIC model of the rails."""

    model: str
    id: str | None = None
    """PCI vendor and device id; None for a server that is sold with several NICs."""
    gbps: float | None = None
    """Speed of a port in Gbit/s."""


class AsideNic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A NIC of a server that is not used for rails."""

    role: str
    pci: str | None = None
    nic: str | None = None
    id: str | None = None


class CatalogueServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server model in the catalogue."""

    model: str
    gpus: Gpus
    nic: ServerNic
    source: str
    products: tuple[str, ...] = ()
    """Values of /sys/class/dmi/id/product_name, or the name of a cloud's shape."""
    ports: tuple[str, ...] | None = None
    """PCI addresses of the rails in rail order; None if they are not published."""
    aside: tuple[AsideNic, ...] = ()
    certainty: Literal["documented", "inferred"] = "documented"


@cache
def load_servers() -> dict[str, CatalogueServer]:
    """Return all servers by name."""
    catalogue: dict[str, CatalogueServer] = {}
    for name in FILES:
        content = files("trackbed.fabric.model.servers").joinpath(name).read_bytes()
        catalogue |= msgspec.convert(yaml.load(content, yaml.CSafeLoader), dict[str, CatalogueServer])
    return catalogue
