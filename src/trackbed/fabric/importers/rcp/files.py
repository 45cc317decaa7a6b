"""RCP's files: the configuration, the inventory, the topology."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from trackbed.fabric.importers.rcp.config import RcpConfig, is_config, read_config
from trackbed.fabric.importers.rcp.inventory import read_hosts
from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.importers.topology import HostLink, read_topologies
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES, YamlDocument, read_yaml

_YAML_SUFFIXES = {".yaml", ".yml", ".json"}


class RcpSite(NamedTuple):
    """What the files say; `hosts` are the places of the inventory's, `links` are the topology's."""

    config: RcpConfig
    hosts: dict[str, Place]
    links: list[HostLink]
    problems: list[Problem]


def read_files(files: Iterable[NamedFile]) -> RcpSite:
    """Read RCP's files. Raises SpecError without a configuration, or if a file cannot be read."""
    documents: list[YamlDocument] = []
    hosts: dict[str, Place] = {}
    for file in sorted(files):
        if PurePosixPath(file[0]).suffix in _YAML_SUFFIXES:
            documents += read_yaml(file[1], file[0], MAX_BYTES)
        else:
            hosts |= read_hosts(file)
    problems = [problem for document in documents for problem in document.problems]
    links, link_problems = read_topologies(documents)
    problems += link_problems
    configs = [tree for document in documents if is_config(tree := document.to_scalars())]
    if not configs:
        message = "no file here is RCP's config.yaml, which has topology and host_first_octet"
        raise SpecError([Problem("no-config", message), *problems])
    return RcpSite(read_config(configs[0]), hosts, links, problems)
