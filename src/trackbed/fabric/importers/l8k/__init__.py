"""Import of the configuration of NVIDIA's Kubernetes Launch Kit (l8k).

cluster-config.yaml -> groups.read_groups             hosts, ports by PCI address, rails
                    -> addressing.build_addressing    a range for each rail, from nvIpam
                    -> profile.iter_fields            mode, stack, VFs, MTU, names
topology JSON       -> topology_ports.TopologyReader  addresses of Spectrum-X, of which a Fabric is found
"""

from pathlib import PurePosixPath
from typing import NamedTuple

from trackbed.fabric.importers.l8k.cluster import import_cluster
from trackbed.fabric.importers.l8k.topology_import import import_topology
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.source import HostFiles, Source, count_files
from trackbed.fabric.importers.topology import HostLink, read_topologies
from trackbed.fabric.importers.tree import Tree
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES, YamlDocument, read_yaml


class _L8kFiles(NamedTuple):
    """The configuration, empty without one, the links of the topology, and problems of the files."""

    tree: Tree
    links: list[HostLink]
    problems: list[Problem]


def import_l8k(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from l8k's configuration and topology.

    Raises SpecError with all problems without hosts and ports.
    """
    site = _read_files(files)
    origin = count_files(files, SOURCE.noun)
    if site.links:
        return import_topology(site.tree, site.links, fabric_name, origin, site.problems)
    return import_cluster(site.tree, fabric_name, origin, site.problems)


def _read_files(files: HostFiles) -> _L8kFiles:
    documents: list[YamlDocument] = []
    for file in sorted(file for members in files.values() for file in members):
        documents += read_yaml(file[1], file[0], MAX_BYTES)
    problems = [problem for document in documents for problem in document.problems]
    links, link_problems = read_topologies(documents)
    problems += link_problems
    trees = [tree for document in documents if isinstance(tree := document.to_scalars(), dict)]
    configs = [tree for tree in trees if isinstance(tree.get("clusterConfig"), (list, dict))]
    if not configs and not links:
        message = "no file here is l8k's cluster-config.yaml, which has clusterConfig, or a topology JSON"
        raise SpecError([Problem("no-config", message), *problems])
    return _L8kFiles(configs[0] if configs else {}, links, problems)


def _is_file(path: PurePosixPath) -> bool:
    return path.suffix in {".yaml", ".yml", ".json"}


SOURCE = Source(
    noun="l8k file",
    layout="l8k's cluster-config.yaml and, for Spectrum-X, its topology JSON (or that of NVIDIA AIR)",
    about="Ports are found by PCI address; what has no place in a Fabric is reported.",
    is_file=_is_file,
    import_files=import_l8k,
    is_site=True,
    max_file_bytes=MAX_BYTES,
)
