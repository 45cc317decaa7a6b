"""Import of NetworkManager's keyfiles, and of the ifcfg files of RHEL's network-scripts, of many hosts.

files -> keyfile.KeyfileReader     a profile from each .nmconnection file
      -> ifcfg.IfcfgReader         a profile from each ifcfg-* file, with its route-* and route6-* files
      -> profile.select_interfaces the Ethernet interfaces of the profiles that connect at boot
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.networkmanager.ifcfg import IfcfgReader, is_ifcfg
from trackbed.fabric.importers.networkmanager.keyfile import KeyfileReader
from trackbed.fabric.importers.networkmanager.profile import select_interfaces
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.source import RAILS_BY_RANGE, HostFiles, HostReading, NamedFile, Source, count_files
from trackbed.fabric.importers.values import ValueParser


def import_networkmanager(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from the keyfiles and ifcfg files of each host.

    Raises SpecError with all problems if no host has a rail.
    """
    return import_hosts(files, fabric_name, read_host, count_files(files, SOURCE.noun))


def read_host(host: str, files: Sequence[NamedFile]) -> HostReading:
    """Read the interfaces of a host. Raises SpecError if a file is too large or not UTF-8."""
    values = ValueParser(host)
    keyfiles = KeyfileReader(values)
    profiles = [*keyfiles.read_profiles([file for file in files if file[0].endswith(_KEYFILE)])]
    ifcfg = IfcfgReader(values)
    profiles += ifcfg.read_profiles([file for file in files if not file[0].endswith(_KEYFILE)])
    interfaces = select_interfaces(profiles, values)
    return HostReading(interfaces, [*keyfiles.problems, *ifcfg.problems], values.problems)


def _is_file(path: PurePosixPath) -> bool:
    return path.name.endswith(_KEYFILE) or is_ifcfg(path)


_KEYFILE = ".nmconnection"
SOURCE = Source(
    noun="connection file",
    layout="a directory HOST for each host, with its .nmconnection files, or its ifcfg-* and route-* files",
    about=RAILS_BY_RANGE,
    is_file=_is_file,
    import_files=import_networkmanager,
)
