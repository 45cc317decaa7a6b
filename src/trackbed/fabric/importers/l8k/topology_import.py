"""Import of a topology of Spectrum-X, and of the cluster-config.yaml that belongs to it."""

from collections.abc import Sequence
from dataclasses import replace

from trackbed.fabric.importers.amend import amend_spec
from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.l8k.groups import L8kGroup, read_groups
from trackbed.fabric.importers.l8k.profile import iter_fields, list_unplaced
from trackbed.fabric.importers.l8k.topology_ports import TopologyReader, read_scheme
from trackbed.fabric.importers.result import NOTE, ImportResult, sort_problems
from trackbed.fabric.importers.source import HostReading, NamedFile
from trackbed.fabric.importers.topology import HostLink
from trackbed.fabric.importers.tree import Tree, get_text, get_tree
from trackbed.fabric.model.problems import Problem, SpecError


def import_topology(
    tree: Tree, links: list[HostLink], fabric_name: str, origin: str, problems: list[Problem]
) -> ImportResult:
    """Build a Fabric from the links of hosts to leaves; `tree` is the configuration, empty without one."""
    groups = {host: group for group in read_groups(tree, problems) for host in group.hosts}
    problems += list_unplaced(tree)
    by_host = _select_links(links, groups, problems)
    scheme = read_scheme(tree, links, problems)
    mode = get_text(get_tree(tree, "profile", "spectrumX"), "multiplaneMode")
    has_plane_addresses = scheme.has_planes and mode != "hwplb"
    if has_plane_addresses:
        message = "a Fabric has no planes: each port of a rail is a rail of its own"
        problems.append(Problem("no-place", message, place=links[0].place, severity="warning"))

    def read_host(host: str, _files: Sequence[NamedFile]) -> HostReading:
        reader = TopologyReader(host, scheme, has_plane_addresses=has_plane_addresses)
        interfaces = list(reader.read_interfaces(by_host[host], groups.get(host)))
        return HostReading(interfaces, [], reader.problems)

    try:
        imported = import_hosts({host: [] for host in by_host}, fabric_name, read_host, origin)
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    if groups:
        imported = amend_spec(imported, {"names": None})
        for fields in iter_fields(tree, problems):
            imported = amend_spec(imported, fields)
    return replace(imported, problems=sort_problems([*problems, *imported.problems]))


def _select_links(
    links: list[HostLink], groups: dict[str, L8kGroup], problems: list[Problem]
) -> dict[str, list[HostLink]]:
    """Return the links by host: those of workerNodes, or of all hosts if there are no groups."""
    by_host: dict[str, list[HostLink]] = {}
    for link in links:
        by_host.setdefault(link.host, []).append(link)
    for host, group in groups.items():
        if host not in by_host:
            message = f"{host} is no host of the topology, whose names must be those of workerNodes; it is left out"
            problems.append(Problem("no-link", message, place=group.hosts[host], severity="warning"))
    selected = {host: members for host, members in by_host.items() if host in groups or not groups}
    if groups and len(selected) < len(by_host):
        message = f"{len(by_host) - len(selected)} hosts of the topology are no workerNodes; they are left out"
        problems.append(Problem("other-host", message, place=links[0].place, severity=NOTE))
    return selected
