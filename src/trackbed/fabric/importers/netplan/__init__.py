"""Import of the netplan files of many hosts.

files -> files.merge_network         one merged `network` for each host
      -> interfaces.InterfaceReader  interfaces, addresses and routes with their places
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.netplan.files import merge_network
from trackbed.fabric.importers.netplan.interfaces import InterfaceReader
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.source import RAILS_BY_RANGE, HostFiles, HostReading, NamedFile, Source, count_files


def import_netplan(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from the netplan files of each host: {host: [(path, content), ...]}.

    Raises SpecError with all problems if no host has a rail.
    """
    return import_hosts(files, fabric_name, _read_host, count_files(files, SOURCE.noun))


def _read_host(host: str, files: Sequence[NamedFile]) -> HostReading:
    network, problems = merge_network(files)
    reader = InterfaceReader(host)
    interfaces = list(reader.read_interfaces(network))
    return HostReading(interfaces, problems, reader.problems)


def _is_file(path: PurePosixPath) -> bool:
    return path.suffix == ".yaml"


SOURCE = Source(
    noun="netplan file",
    layout="HOST.yaml for each host, or a directory HOST with that host's files",
    about=RAILS_BY_RANGE,
    is_file=_is_file,
    import_files=import_netplan,
    host_suffixes=(".yaml",),
    wrong_suffixes={".yml": "netplan reads files ending in .yaml only; rename this one"},
)
