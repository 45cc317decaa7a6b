"""Import of the configuration of NVIDIA's Reference Configuration Package for Spectrum-X (RCP).

config.yaml     -> config.read_config        topology, ports of a host, first octet
inventory/hosts -> inventory.read_hosts      hosts, whose names have their places: hgx-su00-h00
topology JSON   -> topology.read_topologies  hosts and their places, in place of names
                -> ports.list_ports          the port of each host on each rail

The addresses that RCP gives to these ports are computed, and a Fabric is found that plans them.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trackbed.fabric.importers.amend import amend_spec
from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.rcp.config import RcpConfig
from trackbed.fabric.importers.rcp.files import read_files
from trackbed.fabric.importers.rcp.ports import PortReader, list_ports
from trackbed.fabric.importers.result import ImportResult, sort_problems
from trackbed.fabric.importers.source import HostFiles, HostReading, NamedFile, Source, count_files
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES
from trackbed.fabric.text_syntax import PCI


def import_rcp(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from RCP's configuration and its hosts.

    Raises SpecError with all problems without a configuration or without hosts.
    """
    site = read_files([file for members in files.values() for file in members])
    config = site.config
    problems = [*site.problems, *config.problems]
    ports = list_ports(site, problems)
    if not ports:
        message = "no hosts: put RCP's inventory/hosts, or its topology JSON, beside config.yaml"
        raise SpecError([Problem("no-hosts", message, place=config.place), *problems])

    def read_host(host: str, _files: Sequence[NamedFile]) -> HostReading:
        reader = PortReader(host, config)
        interfaces = list(reader.read_interfaces(ports[host]))
        return HostReading(interfaces, [], reader.problems)

    origin = count_files(files, SOURCE.noun)
    try:
        imported = import_hosts({host: [] for host in ports}, fabric_name, read_host, origin)
    except SpecError as error:
        raise SpecError([*problems, *error.problems]) from error
    return _amend(replace(imported, problems=sort_problems([*problems, *imported.problems])), config)


def _amend(imported: ImportResult, config: RcpConfig) -> ImportResult:
    """Return the import with names by rail if PCI addresses select the ports, since nothing says their names."""
    return amend_spec(imported, {"names": None}) if PCI.fullmatch(config.ports[0]) else imported


def _is_file(path: PurePosixPath) -> bool:
    return path.suffix in {".yaml", ".yml", ".json", ".ini"} or path.name == "hosts"


SOURCE = Source(
    noun="RCP file",
    layout="RCP's config.yaml and inventory/hosts, or its topology JSON",
    about="The addresses that RCP gives to these hosts are computed; what has no place in a Fabric is reported.",
    is_file=_is_file,
    import_files=import_rcp,
    is_site=True,
    max_file_bytes=MAX_BYTES,
)
