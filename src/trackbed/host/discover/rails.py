"""Choice of a machine's rails among its NICs, in GPU order, with the reason for each excluded NIC.

    all NICs ── exclude VFs, management and the like ──> one kind of card ──> the nearest to each GPU ──> rails

All rails use one kind of card: the kind that most GPUs reach through PCIe switches; if equal (no switch, no GPU), the
fastest, then the most frequent one. Each card is one rail, by its first function. If there are more GPUs than cards and
enough GPUs for all functions, each function is a rail.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from trackbed.host.discover.inventory import Gpu, Inventory, Nic
from trackbed.host.discover.nearness import Proximity, count_hops, find_proximity
from trackbed.host.discover.read import load_models

MANAGEMENT_MBPS = 25_000
"""A NIC of at most this speed is a management NIC if the machine has faster NICs."""


class Role(Enum):
    """The purpose of a NIC that is not a rail."""

    MANAGEMENT = "management"
    STORAGE = "storage"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rail:
    """One rail of a machine."""

    nic: Nic
    gpus: tuple[int, ...]
    """Indexes of the GPUs that use this rail."""
    proximity: Proximity | None
    """Proximity of the farthest of these GPUs; None if there are none."""


@dataclass(frozen=True, slots=True)
class ExcludedNic:
    """A NIC that is not a rail, and the reason."""

    nic: Nic
    role: Role
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The NICs of one machine, divided into rails and excluded NICs."""

    rails: tuple[Rail, ...]
    excluded: tuple[ExcludedNic, ...]
    """By PCI address."""
    warnings: tuple[str, ...] = ()
    """What the user should check before relying on the order of the rails."""


def choose_rails(inventory: Inventory) -> Selection:
    """Choose the rails of a machine; every other NIC is excluded with a reason."""
    aside = [excluded for nic in inventory.nics if (excluded := _find_exclusion(nic, inventory.nics))]
    remaining = [nic for nic in inventory.nics if nic not in {excluded.nic for excluded in aside}]
    chosen = _choose_kind(inventory, remaining)
    ports, spare = _split_ports(chosen, len(inventory.gpus))
    aside += [_build_model_exclusion(nic, chosen) for nic in remaining if nic not in chosen]
    aside += [ExcludedNic(nic, Role.OTHER, f"second port of the card of {nic.card}.0") for nic in spare]
    rails, doubts = _order_rails(inventory, ports)
    aside += [
        ExcludedNic(nic, Role.STORAGE, "same model as the rails, and beside no GPU of its own")
        for nic in ports
        if nic not in {rail.nic for rail in rails}
    ]
    return Selection(rails, tuple(sorted(aside, key=lambda excluded: excluded.nic.pci)), doubts)


def _find_exclusion(nic: Nic, nics: Iterable[Nic]) -> ExcludedNic | None:
    """Return why a NIC can never be a rail; None if it is a candidate."""
    known = load_models().get(nic.id)
    if nic.pf:
        return ExcludedNic(nic, Role.OTHER, f"virtual function of {nic.pf}")
    if nic.default_route:
        return ExcludedNic(nic, Role.MANAGEMENT, "the default route leads through it")
    if known and known.role == "companion":
        return ExcludedNic(nic, Role.OTHER, f"{known.model} is never a rail")
    fastest = max(other.highest_speed for other in nics)
    if 0 < nic.highest_speed <= MANAGEMENT_MBPS < fastest:
        return ExcludedNic(
            nic, Role.MANAGEMENT, f"{_format_speed(nic.highest_speed)}, and others here have {_format_speed(fastest)}"
        )
    if nic.label and nic.highest_speed < fastest:
        return ExcludedNic(nic, Role.MANAGEMENT, f"onboard ({nic.label})")
    return None


_CardKind = tuple[str, str, int]
"""Id, subsystem and number of functions of a card: cards of one kind are interchangeable."""


def _choose_kind(inventory: Inventory, nics: Sequence[Nic]) -> list[Nic]:
    """Return the NICs on the kind of card that is used for rails."""
    kinds: dict[_CardKind, list[Nic]] = defaultdict(list)
    functions = Counter(nic.card for nic in nics)
    for nic in nics:
        kinds[nic.id, nic.subsystem, functions[nic.card]].append(nic)

    def rank(kind: list[Nic]) -> tuple[int, int, int]:
        served = sum(any(find_proximity(inventory, gpu, nic).is_switched for nic in kind) for gpu in inventory.gpus)
        return served, max(nic.highest_speed for nic in kind), len({nic.card for nic in kind})

    return max(kinds.values(), key=rank, default=[])


def _split_ports(nics: Sequence[Nic], gpu_count: int) -> tuple[list[Nic], list[Nic]]:
    """Return the functions that can be rails, and the remaining functions of their cards."""
    cards = {nic.card: nic for nic in reversed(nics)}
    if len(cards) < gpu_count and len(nics) <= gpu_count:
        return list(nics), []
    first = [nic for nic in nics if cards[nic.card] is nic]
    return first, [nic for nic in nics if nic not in first]


def _build_model_exclusion(nic: Nic, rail_nics: Sequence[Nic]) -> ExcludedNic:
    rail = rail_nics[0]
    difference = nic.model or nic.id
    if nic.id != rail.id:
        return ExcludedNic(nic, Role.STORAGE, f"{difference}, and the rails are {rail.model or rail.id}")
    return ExcludedNic(nic, Role.STORAGE, f"{difference} on another kind of card than the rails")


def _order_rails(inventory: Inventory, ports: Sequence[Nic]) -> tuple[tuple[Rail, ...], tuple[str, ...]]:
    """Return the rails in GPU order, and warnings about that order."""
    if not inventory.gpus:
        return tuple(Rail(nic, (), None) for nic in ports), ("no GPU was seen: the rails are in order of PCI address",)
    pairs = _pair_gpus(inventory, _prefer_switched(inventory, ports))
    by_nic: dict[str, list[Gpu]] = defaultdict(list)
    by_gpu = {gpu.index: nic for gpu, nic in pairs}
    for gpu, nic in pairs:
        by_nic[nic.pci].append(gpu)
    here = [nic for nic in ports if nic.pci in by_nic]
    ordered = sorted(here, key=lambda nic: (min(gpu.index for gpu in by_nic[nic.pci]), nic.pci))
    placed = tuple(_build_rail(inventory, nic, by_nic[nic.pci]) for nic in ordered)
    return placed, tuple(_iter_warnings(inventory, placed, len(by_gpu)))


def _build_rail(inventory: Inventory, nic: Nic, gpus: Sequence[Gpu]) -> Rail:
    farthest = max(find_proximity(inventory, gpu, nic) for gpu in gpus)
    return Rail(nic, tuple(sorted(gpu.index for gpu in gpus)), farthest)


def _prefer_switched(inventory: Inventory, ports: Sequence[Nic]) -> Sequence[Nic]:
    """Return the ports that share a PCIe switch with a GPU. If some GPU has no such port, return all ports."""
    reach = {
        gpu.pci: [nic for nic in ports if find_proximity(inventory, gpu, nic).is_switched] for gpu in inventory.gpus
    }
    near = [nic for nic in ports if any(nic in reached for reached in reach.values())]
    return near if all(reach.values()) else ports


def _pair_gpus(inventory: Inventory, ports: Sequence[Nic]) -> list[tuple[Gpu, Nic]]:
    """Pair GPUs with NICs, nearest first. A GPU gets several NICs if there are more NICs than GPUs, and vice versa.

    NICs remain without a GPU only if the numbers do not divide: with 9 cards and 8 GPUs, one card is not a rail.
    """
    gpus = inventory.gpus
    nics_each = max(1, len(ports) // len(gpus))
    gpus_each = -(-len(gpus) // len(ports)) if ports else 0
    both = ((gpu, nic) for gpu in gpus for nic in ports)
    options = sorted(
        both,
        key=lambda option: (find_proximity(inventory, *option), count_hops(*option), option[0].index, option[1].pci),
    )
    room_gpu = {gpu.pci: nics_each for gpu in gpus}
    room_nic = {nic.pci: gpus_each for nic in ports}
    pairs = []
    for gpu, nic in options:
        if room_gpu[gpu.pci] and room_nic[nic.pci]:
            room_gpu[gpu.pci] -= 1
            room_nic[nic.pci] -= 1
            pairs.append((gpu, nic))
    return pairs


def _iter_warnings(inventory: Inventory, rails: Sequence[Rail], served_gpus: int) -> Iterable[str]:
    if served_gpus < len(inventory.gpus):
        yield f"{len(inventory.gpus) - served_gpus} of {len(inventory.gpus)} GPUs have no rail"
    order = [gpu for rail in rails for gpu in rail.gpus]
    if order != sorted(order):
        yield "GPUs of one rail do not follow each other: the Fabric numbers them in order of rails"
    far = [str(rail) for rail, rail_here in enumerate(rails) if rail_here.proximity is Proximity.SYS]
    if far:
        yield (
            f"nothing tells that the NICs of rail {', '.join(far)} stand beside a GPU (other socket, or a VM that "
            "hides it): they are in order of PCI address"
        )


def _format_speed(mbps: int) -> str:
    return f"{mbps / 1000:g} Gb/s"
