"""A commented Fabric document for the discovered machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.fabric import API_VERSION
from trackbed.host.discover.crosscheck import crosscheck
from trackbed.host.discover.inventory import Inventory
from trackbed.host.discover.rails import Aside, Rail, Selection, choose_rails


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's choices: the fabric's name and its address range."""

    name: str = "train"
    ipv4: str = "10.0.0.0/13"


@dataclass(frozen=True, slots=True)
class _Group:
    """Machines with the same rails, which share one entry of the Fabric."""

    hosts: tuple[str, ...]
    example: Inventory
    selection: Selection


def render_fabric(inventories: Sequence[Inventory], choice: Choice) -> str:
    """Return the Fabric document. ValueError without any rail, or if two machines have the same name."""
    groups = list(_group_machines(inventories))
    count = max((len(group.selection.rails) for group in groups), default=0)
    if not count:
        raise ValueError(_explain_no_rails(inventories))
    links = {rail.nic.link for group in groups for rail in group.selection.rails}
    if len(links) > 1:
        raise ValueError("some rails are InfiniBand and some are Ethernet: make one Fabric for each")
    lines = [
        f"# Made of what {_count_machines(len(inventories))} told. Read it through, then: trackbed plan -f FILE",
        f"apiVersion: {API_VERSION}",
        "kind: Fabric",
        f"metadata: {{name: {choice.name}}}",
        "spec:",
        *(["  linkType: infiniband"] if links == {"infiniband"} else []),
        "  nodes:",
        *(line for group in groups for line in _render_group(group, count)),
        f"  rails: {count}",
        "  # No machine tells which addresses are free: change the range where others use it.",
        f"  addressing: {{scheme: shared-subnet, ipv4: {choice.ipv4}}}",
    ]
    return "\n".join(lines) + "\n"


def _explain_no_rails(inventories: Sequence[Inventory]) -> str:
    names = ", ".join(inventory.host for inventory in inventories)
    return f"no NIC of {names} can be a rail; `trackbed discover` shows why"


def _group_machines(inventories: Sequence[Inventory]) -> Iterator[_Group]:
    """Yield groups of machines with the same rails, in order of their first host; skip machines without rails."""
    kinds: dict[tuple[object, ...], list[tuple[Inventory, Selection]]] = {}
    hosts: set[str] = set()
    for inventory in inventories:
        if inventory.host in hosts:
            raise ValueError(f"two machines are called {inventory.host}; a node has a name of its own")
        hosts.add(inventory.host)
        selection = choose_rails(inventory)
        if selection.rails:
            ports = tuple((rail.nic.pci, rail.nic.id, rail.gpus) for rail in selection.rails)
            kinds.setdefault((ports, len(inventory.gpus)), []).append((inventory, selection))
    for alike in kinds.values():
        example, selection = alike[0]
        yield _Group(tuple(member.host for member, _ in alike), example, selection)


def _render_group(group: _Group, count: int) -> Iterator[str]:
    chosen, gpus = group.selection.rails, len(group.example.gpus)
    ids = {rail.nic.id for rail in chosen}
    yield from (f"    # {line}" for line in _describe_group(group))
    yield f"    - hosts: {fold_hosts(group.hosts)}"
    if len(ids) == 1:
        yield f'      nic: "{ids.pop()}"'
    if gpus and (gpus % len(chosen) == 0 or len(chosen) % gpus == 0):
        yield f"      gpus: {gpus}"
    yield "      ports:"
    yield from (f'        - "{rail.nic.pci}" # {_describe_rail(rail)}' for rail in chosen)
    if len(chosen) < count:
        yield "        # fewer NICs than others have: check which rails these are cabled to"
    yield from ["        - null"] * (count - len(chosen))


def _describe_group(group: _Group) -> Iterator[str]:
    machine = group.example
    product = " ".join(filter(None, (machine.vendor, machine.product))) or "a machine that does not tell its model"
    name, differs = crosscheck(machine, group.selection)
    agrees = ", with differences:" if differs else ", as it says"
    known = "" if name is None else f"; {name} in the catalogue{agrees}"
    yield f"{product}, {len(machine.gpus)} GPUs{known}"
    yield from (f"  {line}" for line in differs)
    yield from (f"check: {doubt}" for doubt in group.selection.doubts)
    yield from (f"set aside: {_describe_aside(excluded)}" for excluded in group.selection.aside)


def _describe_aside(aside: Aside) -> str:
    names = " ".join(filter(None, (aside.nic.pci, aside.nic.netdev)))
    return f"{names}, {aside.role.value}: {aside.reason}"


def _describe_rail(rail: Rail) -> str:
    beside = f"GPU {','.join(map(str, rail.gpus))} ({rail.near.name})" if rail.near is not None else ""
    return ", ".join(filter(None, (beside, rail.nic.netdev, rail.nic.model or rail.nic.id)))


def _count_machines(count: int) -> str:
    return "one machine" if count == 1 else f"{count} machines"
