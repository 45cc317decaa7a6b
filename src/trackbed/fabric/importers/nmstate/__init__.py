"""Import of the states of nmstate of many hosts, plain or in objects of Kubernetes.

files -> states.read_states         the states of each host
      -> interfaces.NmstateReader   interfaces, addresses and routes with their places
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trackbed.fabric.importers.inference.import_hosts import import_hosts
from trackbed.fabric.importers.nmstate.interfaces import NmstateReader
from trackbed.fabric.importers.nmstate.states import read_states
from trackbed.fabric.importers.result import ImportResult, sort_problems
from trackbed.fabric.importers.source import (
    RAILS_BY_RANGE,
    HostFiles,
    HostReading,
    NamedFile,
    Source,
    count_files,
)
from trackbed.fabric.model.problems import SpecError


def import_nmstate(files: HostFiles, fabric_name: str = "imported") -> ImportResult:
    """Build a Fabric called `fabric_name` from the nmstate files of all hosts.

    Raises SpecError with all problems if no host has a rail.
    """
    site = read_states(files)

    def read_host(host: str, _files: Sequence[NamedFile]) -> HostReading:
        if host in site.errors:
            raise site.errors[host]
        reader = NmstateReader(host)
        interfaces = list(reader.read_interfaces([*site.common, *site.by_host.get(host, [])]))
        return HostReading(interfaces, [], reader.problems)

    by_host = {host: [state.file for state in states] for host, states in site.by_host.items()}
    by_host |= {host: list(files[host]) for host in site.errors}
    try:
        imported = import_hosts(by_host, fabric_name, read_host, count_files(files, SOURCE.noun))
    except SpecError as error:
        raise SpecError([*site.problems, *error.problems]) from error
    return replace(imported, problems=sort_problems([*site.problems, *imported.problems]))


def _is_file(path: PurePosixPath) -> bool:
    return path.suffix in _SUFFIXES


_SUFFIXES = (".yaml", ".yml")
SOURCE = Source(
    noun="nmstate file",
    layout="HOST.yaml for each host, a directory HOST with that host's files, or policies of kubernetes-nmstate",
    about=RAILS_BY_RANGE,
    is_file=_is_file,
    import_files=import_nmstate,
    host_suffixes=_SUFFIXES,
)
