"""Import of a cluster-config.yaml without topology: no address of a port is known."""

from typing import Any

from trackbed.fabric.counts import format_count
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.importers.amend import amend_spec
from trackbed.fabric.importers.l8k.addressing import build_addressing
from trackbed.fabric.importers.l8k.groups import L8kGroup, read_groups
from trackbed.fabric.importers.l8k.profile import is_infiniband, is_spectrum_x, iter_fields, list_unplaced
from trackbed.fabric.importers.result import ImportResult, sort_problems
from trackbed.fabric.importers.tree import Tree, find_place
from trackbed.fabric.model.fabric import API_VERSION
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.plan.compute import compute_plan

Document = dict[str, Any]


def import_cluster(tree: Tree, fabric_name: str, origin: str, problems: list[Problem]) -> ImportResult:
    """Build a Fabric from l8k's groups and profile. Raises SpecError without hosts and ports."""
    groups = _drop_repeated_hosts(read_groups(tree, problems), problems)
    problems += list_unplaced(tree)
    if not groups:
        message = "no group of clusterConfig has both workerNodes and ports of east-west traffic"
        raise SpecError([Problem("no-hosts", message, place=find_place(tree)), *problems])
    rails = 1 + max(rail for group in groups for rail in group.ports)
    spec = _build_spec(tree, groups, rails, problems)
    document = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric_name}, "spec": spec}
    try:
        fabric = build_fabric(document)
        slots = {node.name: node.slot for node in compute_plan(fabric, {}).nodes}
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    ports = sum(len(group.hosts) * len(group.ports) for group in groups)
    parts = ((len(slots), "host"), (rails, "rail"), (ports, "port"))
    counts = ", ".join(format_count(count, word) for count, word in parts)
    summary = f"{origin}: {counts}; l8k gives ports no addresses, the plan's are new"
    imported = ImportResult(fabric, slots, (), document, summary)
    for fields in iter_fields(tree, problems):
        imported = amend_spec(imported, fields)
    return ImportResult(
        imported.fabric, slots, sort_problems([*problems, *imported.problems]), imported.document, summary
    )


def _build_spec(tree: Tree, groups: list[L8kGroup], rails: int, problems: list[Problem]) -> Document:
    spec: Document = {"linkType": "infiniband"} if is_infiniband(tree) or groups[0].is_infiniband else {}
    if is_spectrum_x(tree):
        message = "without the topology JSON beside it, hosts are placed in units in their order, not as they are wired"
        problems.append(Problem("no-topology", message, place=find_place(tree.get("profile")), severity="warning"))
        addressing = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"}
        return spec | {"rails": str(rails), "addressing": addressing, "nodes": build_nodes(groups, rails, problems)}
    return spec | build_addressing(tree, rails, len(groups), problems) | {"nodes": build_nodes(groups, rails, problems)}


def build_nodes(groups: list[L8kGroup], rails: int, problems: list[Problem]) -> list[Document]:
    """Return spec.nodes: an entry for each group, with its ports by PCI address."""
    nodes = []
    for group in groups:
        place = next(iter(group.hosts.values()))
        for rail, ports in group.ports.items():
            if len(ports) > 1:
                message = f"rail {rail} of group {group.name!r} has {len(ports)} ports; {ports[0]} is used"
                problems.append(Problem("second-port", message, place=place, severity="warning"))
        entry: Document = {"hosts": fold_hosts(group.hosts)}
        entry["ports"] = [group.ports[rail][0] if rail in group.ports else None for rail in range(rails)]
        entry |= {"nic": group.nic} if group.nic else {}
        count = len(group.ports)
        fits = group.gpus and (group.gpus % count == 0 or count % group.gpus == 0)
        nodes.append(entry | ({"gpus": str(group.gpus)} if fits and group.gpus != count else {}))
    return nodes


def _drop_repeated_hosts(groups: list[L8kGroup], problems: list[Problem]) -> list[L8kGroup]:
    """Return the groups without hosts that an earlier group has."""
    owners: dict[str, str] = {}
    kept = []
    for group in groups:
        hosts: dict[str, Place] = {}
        for host, place in group.hosts.items():
            if host in owners:
                message = f"{host} is in group {owners[host]!r} too; that one is used"
                problems.append(Problem("second-group", message, place=place, severity="warning"))
            else:
                owners[host] = group.name
                hosts[host] = place
        if hosts:
            kept.append(group._replace(hosts=hosts))
    return kept
