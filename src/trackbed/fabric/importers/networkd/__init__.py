"""Import of the files of systemd-networkd of many hosts.

files -> units.read_units              each .network, .link and .netdev file with its drop-ins
      -> matching.find_ports           the files that apply to each port
      -> interfaces.NetworkdReader     interfaces, addresses and routes with their places
"""

from collections.abc import Sequence

from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.networkd.interfaces import NetworkdReader
from trackbed.fabric.importers.networkd.units import is_file, read_units
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.source import RAILS_BY_RANGE, HostFiles, HostReading, NamedFile, Source, count_files


def import_networkd(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from the files of networkd of each host.

    Raises SpecError with all problems if no host has a rail.
    """
    return import_hosts(files, fabric_name, _read_host, count_files(files, SOURCE.noun))


def _read_host(host: str, files: Sequence[NamedFile]) -> HostReading:
    units, problems = read_units(files)
    reader = NetworkdReader(host)
    interfaces = list(reader.read_interfaces(units))
    return HostReading(interfaces, problems, reader.problems)


SOURCE = Source(
    noun="networkd file",
    layout="a directory HOST for each host, with its .network, .link and .netdev files and their drop-ins",
    about=RAILS_BY_RANGE,
    is_file=is_file,
    import_files=import_networkd,
)
