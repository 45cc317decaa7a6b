"""Choice of a machine's rails among its NICs, in GPU order, with the reason for each excluded NIC.

    all NICs ── set aside: VFs, guests' NICs, management ──> one model at one speed ──> nearest to each GPU ──> rails

A rail's NIC is of the model that most GPUs reach through PCIe switches; where no GPU does (no switch, no GPU), of the
fastest model, then of the one there is most of. Each card is one rail, by its first function, unless there are more
GPUs than cards and as many functions as GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from trackbed.host.discover.inventory import Gpu, Inventory, Nic
from trackbed.host.discover.nearness import Proximity, count_hops, find_nearness
from trackbed.host.discover.read import load_models

MANAGEMENT_MBPS = 25_000
"""Up to this speed, beside faster NICs, a NIC is one for management."""


class Role(Enum):
    """The purpose of a NIC that is no rail."""

    MANAGEMENT = "management"
    STORAGE = "storage"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rail:
    """One rail of a machine."""

    nic: Nic
    gpus: tuple[int, ...]
    """Indexes of the GPUs it serves."""
    near: Proximity | None
    """How near the farthest of them is; None without GPUs."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A NIC that is no rail."""

    nic: Nic
    role: Role
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The rails of one machine, and the NICs that were set aside."""

    rails: tuple[Rail, ...]
    aside: tuple[Aside, ...]
    """By PCI address."""
    doubts: tuple[str, ...] = ()
    """Points to check before relying on the order."""


def choose_rails(inventory: Inventory) -> Selection:
    """Choose the rails of a machine; every other NIC is set aside with a reason."""
    aside = [excluded for nic in inventory.nics if (excluded := _exclude(nic, inventory.nics))]
    remaining = [nic for nic in inventory.nics if nic not in {excluded.nic for excluded in aside}]
    chosen = _choose_kind(inventory, remaining)
    ports, spare = _split_ports(chosen, len(inventory.gpus))
    aside += [_exclude_model(nic, chosen) for nic in remaining if nic not in chosen]
    aside += [Aside(nic, Role.OTHER, f"second port of the card of {nic.card}.0") for nic in spare]
    rails, doubts = _order_rails(inventory, ports)
    aside += [
        Aside(nic, Role.STORAGE, "same model as the rails, and beside no GPU of its own")
        for nic in ports
        if nic not in {rail.nic for rail in rails}
    ]
    return Selection(rails, tuple(sorted(aside, key=lambda excluded: excluded.nic.pci)), doubts)


def _exclude(nic: Nic, nics: Iterable[Nic]) -> Aside | None:
    """Return a NIC that can never be a rail with the reason; None for a candidate."""
    known = load_models().get(nic.id)
    if nic.pf:
        return Aside(nic, Role.OTHER, f"virtual function of {nic.pf}")
    if nic.default_route:
        return Aside(nic, Role.MANAGEMENT, "the default route leads through it")
    if known and known.role == "companion":
        return Aside(nic, Role.OTHER, f"{known.model} is never a rail")
    fastest = max(other.fastest for other in nics)
    if 0 < nic.fastest <= MANAGEMENT_MBPS < fastest:
        return Aside(
            nic, Role.MANAGEMENT, f"{_format_speed(nic.fastest)}, and others here have {_format_speed(fastest)}"
        )
    if nic.label and nic.fastest < fastest:
        return Aside(nic, Role.MANAGEMENT, f"onboard ({nic.label})")
    return None


_Kind = tuple[str, str, int]
"""Id, subsystem, functions of the card: cards of one kind can stand in for each other."""


def _choose_kind(inventory: Inventory, nics: Sequence[Nic]) -> list[Nic]:
    """The NICs of the kind that the rails are of."""
    kinds: dict[_Kind, list[Nic]] = defaultdict(list)
    functions = _count_functions(nics)
    for nic in nics:
        kinds[nic.id, nic.subsystem, functions[nic.card]].append(nic)

    def rank(kind: list[Nic]) -> tuple[int, int, int]:
        served = sum(any(find_nearness(inventory, gpu, nic).switched for nic in kind) for gpu in inventory.gpus)
        return served, max(nic.fastest for nic in kind), len({nic.card for nic in kind})

    return max(kinds.values(), key=rank, default=[])


def _count_functions(nics: Iterable[Nic]) -> Mapping[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for nic in nics:
        counts[nic.card] += 1
    return counts


def _split_ports(nics: Sequence[Nic], gpus: int) -> tuple[list[Nic], list[Nic]]:
    """(one function for each rail, the functions that are left)."""
    cards = {nic.card: nic for nic in reversed(nics)}
    if len(cards) < gpus and len(nics) <= gpus:
        return list(nics), []
    first = [nic for nic in nics if cards[nic.card] is nic]
    return first, [nic for nic in nics if nic not in first]


def _exclude_model(nic: Nic, chosen: Sequence[Nic]) -> Aside:
    rail = chosen[0]
    difference = nic.model or nic.id
    if nic.id != rail.id:
        return Aside(nic, Role.STORAGE, f"{difference}, and the rails are {rail.model or rail.id}")
    return Aside(nic, Role.STORAGE, f"{difference} on another kind of card than the rails")


def _order_rails(inventory: Inventory, ports: Sequence[Nic]) -> tuple[tuple[Rail, ...], tuple[str, ...]]:
    """The rails in GPU order."""
    if not inventory.gpus:
        return tuple(Rail(nic, (), None) for nic in ports), ("no GPU was seen: the rails are in order of PCI address",)
    pairs = _pair(inventory, _find_beside(inventory, ports))
    by_nic: dict[str, list[Gpu]] = defaultdict(list)
    by_gpu = {gpu.index: nic for gpu, nic in pairs}
    for gpu, nic in pairs:
        by_nic[nic.pci].append(gpu)
    here = [nic for nic in ports if nic.pci in by_nic]
    ordered = sorted(here, key=lambda nic: (min(gpu.index for gpu in by_nic[nic.pci]), nic.pci))
    placed = tuple(_build_rail(inventory, nic, by_nic[nic.pci]) for nic in ordered)
    return placed, tuple(_list_doubts(inventory, placed, len(by_gpu)))


def _build_rail(inventory: Inventory, nic: Nic, gpus: Sequence[Gpu]) -> Rail:
    farthest = max(find_nearness(inventory, gpu, nic) for gpu in gpus)
    return Rail(nic, tuple(sorted(gpu.index for gpu in gpus)), farthest)


def _find_beside(inventory: Inventory, ports: Sequence[Nic]) -> Sequence[Nic]:
    """Only the ports behind a switch with a GPU, where every GPU has such a port."""
    reach = {gpu.pci: [nic for nic in ports if find_nearness(inventory, gpu, nic).switched] for gpu in inventory.gpus}
    near = [nic for nic in ports if any(nic in reached for reached in reach.values())]
    return near if all(reach.values()) else ports


def _pair(inventory: Inventory, ports: Sequence[Nic]) -> list[tuple[Gpu, Nic]]:
    """GPUs and NICs, nearest first, each as often as there are more of the other.

    Left-over NICs stay unpaired only where they are fewer than the GPUs: 9 cards for 8 GPUs have one that is no rail.
    """
    gpus = inventory.gpus
    nics_each = max(1, len(ports) // len(gpus))
    gpus_each = -(-len(gpus) // len(ports)) if ports else 0
    both = ((gpu, nic) for gpu in gpus for nic in ports)
    options = sorted(
        both,
        key=lambda option: (find_nearness(inventory, *option), count_hops(*option), option[0].index, option[1].pci),
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


def _list_doubts(inventory: Inventory, rails: Sequence[Rail], served: int) -> Iterable[str]:
    if served < len(inventory.gpus):
        yield f"{len(inventory.gpus) - served} of {len(inventory.gpus)} GPUs have no rail"
    order = [gpu for rail in rails for gpu in rail.gpus]
    if order != sorted(order):
        yield "GPUs of one rail do not follow each other: the Fabric numbers them in order of rails"
    far = [str(rail) for rail, rail_here in enumerate(rails) if rail_here.near is Proximity.SYS]
    if far:
        yield (
            f"nothing tells that the NICs of rail {', '.join(far)} stand beside a GPU (other socket, or a VM that "
            "hides it): they are in order of PCI address"
        )


def _format_speed(mbps: int) -> str:
    return f"{mbps / 1000:g} Gb/s"
