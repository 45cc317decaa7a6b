"""The hardware groups in l8k's cluster-config.yaml: hosts, and their ports by PCI address."""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.tree import (
    Tree,
    find_place,
    get_list,
    get_scalar,
    get_text,
    get_tree,
    get_trees,
    is_text,
)
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.model.source import Scalar
from trackbed.fabric.text_syntax import HOST_NAME, PCI, PCI_ID

MAX_RAILS = 64
_VENDOR = "15b3"
"""NVIDIA's PCI vendor id; l8k knows no other NICs."""


class L8kGroup(NamedTuple):
    """Hosts with the same hardware."""

    name: str
    hosts: dict[str, Place]
    ports: dict[int, list[str]]
    """PCI addresses by rail; several of one rail are its planes."""
    nic: str | None
    gpus: int
    """GPUs that are connected to ports; 0 if the group does not say."""
    is_infiniband: bool


def read_groups(tree: Tree, problems: list[Problem]) -> list[L8kGroup]:
    """Return the groups with hosts and ports; report what is left out.

    In l8k's first versions clusterConfig is one group in place of a list of groups (l8k-config.yaml, 7f0481c, 2026-01).
    """
    groups = []
    only_group = get_tree(tree, "clusterConfig")
    for entry in [only_group] if only_group else get_trees(tree, "clusterConfig"):
        group = _read_group(entry, problems)
        if group.hosts and group.ports:
            groups.append(group)
            continue
        missing = "workerNodes" if group.ports else "ports of east-west traffic"
        message = f"group {group.name!r} has no {missing}; it is left out"
        problems.append(Problem("empty-group", message, place=find_place(entry), severity="warning"))
    return groups


def _read_group(entry: Tree, problems: list[Problem]) -> L8kGroup:
    name = get_text(entry, "identifier") or get_text(entry, "machineType")
    ports: dict[int, list[str]] = {}
    pfs = list(_iter_rail_pfs(entry, problems))
    for position, pf in enumerate(pfs):
        rail, pci = _read_rail(pf, position, problems), get_scalar(pf, "pciAddress")
        if pci is None or not PCI.fullmatch((pci.text or "").lower()):
            message = f"a port of group {name!r} has no PCI address, as 0000:1a:00.0 is; it is left out"
            problems.append(Problem("bad-pci", message, place=find_place(pf), severity="warning"))
        elif rail is not None:
            ports.setdefault(rail, []).append((pci.text or "").lower())
    nics = {f"{_VENDOR}:{get_text(pf, 'deviceID').lower()}" for pf in pfs}
    nic = nics.pop() if len(nics) == 1 else ""
    return L8kGroup(
        name,
        dict(_iter_hosts(entry, problems)),
        ports,
        nic if PCI_ID.fullmatch(nic) else None,
        len({get_text(pf, "connectedGPU") for pf in pfs} - {""}),
        is_text(entry, "linkType", "infiniband"),
    )


def _iter_rail_pfs(entry: Tree, problems: list[Problem]) -> Iterator[Tree]:
    """Yield the ports that carry traffic between GPUs; report the others."""
    for pf in get_trees(entry, "pfs"):
        if not is_text(pf, "traffic", "north-south"):
            yield pf
            continue
        message = f"{get_text(pf, 'pciAddress')} is no rail: its traffic is north-south"
        problems.append(Problem("set-aside", message, place=find_place(pf), severity=NOTE))


def _read_rail(pf: Tree, position: int, problems: list[Problem]) -> int | None:
    """Return the rail of a port: as the file says, else its position among the ports."""
    scalar = get_scalar(pf, "rail")
    text = (scalar.text if scalar else None) or str(position)
    if text.isascii() and text.isdigit() and len(text) < 3 and int(text) < MAX_RAILS:  # noqa: PLR2004 - two digits
        return int(text)
    message = f"rail is {text!r}, it must be a number below {MAX_RAILS}; the port is left out"
    problems.append(Problem("bad-rail", message, place=scalar.place if scalar else find_place(pf), severity="warning"))
    return None


def _iter_hosts(entry: Tree, problems: list[Problem]) -> Iterator[tuple[str, Place]]:
    for item in get_list(entry, "workerNodes"):
        if isinstance(item, Scalar) and HOST_NAME.fullmatch(item.text or ""):
            yield item.text or "", item.place
        else:
            message = f"{item.text if isinstance(item, Scalar) else item!r} is no host name; it is left out"
            problems.append(Problem("bad-host", message, place=find_place(item), severity="warning"))
