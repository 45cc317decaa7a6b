"""Comparison of a discovered machine with the server catalogue. The machine wins; differences are reported."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.servers import CatalogueServer, load_servers
from trackbed.host.discover.inventory import Inventory
from trackbed.host.discover.rails import Selection


def crosscheck(inventory: Inventory, selection: Selection) -> tuple[str | None, tuple[str, ...]]:
    """Return the server's name in the catalogue (None if no entry has its product name), and the differences.

    One product may be sold with various GPUs, so the entry with the fewest differences is chosen.
    """
    product = inventory.product.strip()
    differences = {
        name: tuple(_iter_differences(inventory, selection, server))
        for name, server in load_servers().items()
        if product and product in server.products
    }
    if not differences:
        return None, ()
    name = min(differences, key=lambda server_name: len(differences[server_name]))
    return name, tuple(f"{name} in the catalogue {difference}" for difference in differences[name])


def _iter_differences(inventory: Inventory, selection: Selection, server: CatalogueServer) -> Iterator[str]:
    if len(inventory.gpus) != server.gpus.count:
        yield f"has {server.gpus.count} GPUs, here are {len(inventory.gpus)}"
    ids = {rail.nic.id for rail in selection.rails}
    if server.nic.id and ids and ids != {server.nic.id}:
        yield f"has rails of {server.nic.model} ({server.nic.id}), here they are {', '.join(sorted(ids))}"
    if server.ports is None:
        return
    here = tuple(rail.nic.pci for rail in selection.rails)
    if len(here) != len(server.ports):
        yield f"has {len(server.ports)} rails, here are {len(here)}"
    for rail, (theirs, ours) in enumerate(zip(server.ports, here, strict=False)):
        if theirs != ours:
            yield f"has rail {rail} at {theirs}, here it is {ours}"
