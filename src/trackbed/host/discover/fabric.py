"""A commented Fabric document for the discovered machines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.fabric import API_VERSION
from trackbed.host.discover.crosscheck import crosscheck
from trackbed.host.discover.inventory import Inventory
from trackbed.host.discover.rails import ExcludedNic, Rail, Selection, choose_rails

_WORD = re.compile(r"[0-9A-Za-z:._-]*")


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's choices: the fabric's name and its address range."""

    name: str = "train"
    ipv4: str = "10.0.0.0/13"


@dataclass(frozen=True, slots=True)
class _Group:
    """Machines with the same rails. They share one entry of the Fabric, which is rendered from the first inventory."""

    hosts: tuple[str, ...]
    first_inventory: Inventory
    selection: Selection


def render_fabric(inventories: Sequence[Inventory], choice: Choice) -> str:
    """Return the Fabric document.

    Raises ValueError if no machine has a rail, two machines have the same name, or the rails differ in link type.
    """
    groups = list(_group_machines(inventories))
    count = max((len(group.selection.rails) for group in groups), default=0)
    if not count:
        names = ", ".join(inventory.host for inventory in inventories)
        raise ValueError(f"no NIC of {names} can be a rail; `trackbed discover` shows why")
    links = {rail.nic.link for group in groups for rail in group.selection.rails}
    if len(links) > 1:
        raise ValueError("some rails are InfiniBand and some are Ethernet: make one Fabric for each")
    machines = "one machine" if len(inventories) == 1 else f"{len(inventories)} machines"
    lines = [
        f"# Generated from the hardware of {machines}. Review it, then run: trackbed plan -f FILE",
        f"apiVersion: {API_VERSION}",
        "kind: Fabric",
        f"metadata: {{name: {choice.name}}}",
        "spec:",
        *(["  linkType: infiniband"] if links == {"infiniband"} else []),
        "  nodes:",
        *(line for group in groups for line in _render_group(group, count)),
        f"  rails: {count}",
        "  # Free addresses cannot be discovered: change the range if it is in use elsewhere.",
        f"  addressing: {{scheme: shared-subnet, ipv4: {choice.ipv4}}}",
        *(f"  kubernetes: {{gpuResource: {resource}}}" for resource in _find_gpu_resources(groups)),
    ]
    return "\n".join(lines) + "\n"


def _find_gpu_resources(groups: Sequence[_Group]) -> list[str]:
    """Return the resource of the first machine's GPUs, unless it is the default."""
    resources = [group.first_inventory.gpu_resource for group in groups if group.first_inventory.gpus]
    return [resource for resource in resources[:1] if resource != GPU_RESOURCE]


def _group_machines(inventories: Sequence[Inventory]) -> Iterator[_Group]:
    """Yield groups of machines with the same rails, in order of their first host; skip machines without rails."""
    kinds: dict[tuple[object, ...], list[tuple[Inventory, Selection]]] = {}
    hosts: set[str] = set()
    for inventory in inventories:
        if inventory.host in hosts:
            raise ValueError(f"two machines are called {inventory.host}; a node has a name of its own")
        hosts.add(inventory.host)
        _check_names(inventory)
        selection = choose_rails(inventory)
        if selection.rails:
            ports = tuple((rail.nic.pci, rail.nic.id, rail.gpus) for rail in selection.rails)
            kinds.setdefault((ports, len(inventory.gpus)), []).append((inventory, selection))
    for alike in kinds.values():
        example, selection = alike[0]
        yield _Group(tuple(member.host for member, _ in alike), example, selection)


def _check_names(inventory: Inventory) -> None:
    """Raise ValueError unless the texts of a machine that become values of the document are plain words."""
    words = [inventory.host, *(word for nic in inventory.nics for word in (nic.pci, nic.id))]
    malformed = next((word for word in words if not _WORD.fullmatch(word)), None)
    if malformed is not None:
        raise ValueError(f"{malformed!a} of {inventory.host!a} is neither a host's name nor the address or id of a NIC")


def _render_group(group: _Group, rail_count: int) -> Iterator[str]:
    chosen, gpus = group.selection.rails, len(group.first_inventory.gpus)
    ids = {rail.nic.id for rail in chosen}
    yield from (f"    # {_to_comment(line)}" for line in _describe_group(group))
    yield f"    - hosts: {fold_hosts(group.hosts)}"
    if len(ids) == 1:
        yield f'      nic: "{ids.pop()}"'
    if gpus and (gpus % len(chosen) == 0 or len(chosen) % gpus == 0):
        yield f"      gpus: {gpus}"
    yield "      ports:"
    yield from (f'        - "{rail.nic.pci}" # {_to_comment(_describe_rail(rail))}' for rail in chosen)
    if len(chosen) < rail_count:
        yield "        # fewer NICs than other hosts: check which rails these are cabled to"
    yield from ["        - null"] * (rail_count - len(chosen))


def _to_comment(text: str) -> str:
    """Return a text as a comment may have it: in one line, and printable."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def _describe_group(group: _Group) -> Iterator[str]:
    machine = group.first_inventory
    product = " ".join(filter(None, (machine.vendor, machine.product))) or "a machine of unknown model"
    name, differs = crosscheck(machine, group.selection)
    agrees = ", with differences:" if differs else ", which agrees"
    known = "" if name is None else f"; {name} in the catalogue{agrees}"
    yield f"{product}, {len(machine.gpus)} GPUs{known}"
    yield from (f"  {line}" for line in differs)
    yield from (f"check: {doubt}" for doubt in group.selection.warnings)
    yield from (f"set aside: {_describe_excluded(excluded)}" for excluded in group.selection.excluded)


def _describe_excluded(excluded: ExcludedNic) -> str:
    names = " ".join(filter(None, (excluded.nic.pci, excluded.nic.netdev)))
    return f"{names}, {excluded.role.value}: {excluded.reason}"


def _describe_rail(rail: Rail) -> str:
    beside = f"GPU {','.join(map(str, rail.gpus))} ({rail.proximity.name})" if rail.proximity is not None else ""
    return ", ".join(filter(None, (beside, rail.nic.netdev, rail.nic.model or rail.nic.id)))
