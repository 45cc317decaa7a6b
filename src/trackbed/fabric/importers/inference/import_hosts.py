"""Import of the files of many hosts as a Fabric whose plan reproduces their addresses."""

from collections.abc import Sequence

from trackbed.fabric.counts import format_count
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.importers.inference.compare import Slots
from trackbed.fabric.importers.inference.document import iter_link_problems, iter_mtu_problems
from trackbed.fabric.importers.inference.duplicates import drop_duplicate_macs, iter_duplicate_addresses
from trackbed.fabric.importers.inference.replaced import iter_leases
from trackbed.fabric.importers.inference.site import RailSite, SiteFinder
from trackbed.fabric.importers.inference.trial import CandidateTrial, choose_trial
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.result import (
    HostProblem,
    ImportResult,
    merge_problems,
    sort_problems,
)
from trackbed.fabric.importers.source import HostFiles, HostReader, HostReading, NamedFile
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.text_syntax import HOST_NAME

MAX_INTERFACES = 2000
"""Limit of the interfaces of a host; one with 128 VFs of eight ports has 1,032."""


def import_hosts(files: HostFiles, fabric_name: str, read_host: HostReader, origin: str) -> ImportResult:
    """Build a Fabric called `fabric_name` from the files of each host; `origin` is what they are: `4 netplan files`.

    Raises SpecError with all problems if no host has a rail.
    """
    problems: list[Problem] = []
    host_problems: list[HostProblem] = []
    hosts = {host: _read_interfaces(host, files[host], read_host, problems, host_problems) for host in sorted(files)}
    finder = SiteFinder({host: interfaces for host, interfaces in hosts.items() if interfaces is not None})
    duplicate_addresses = list(
        iter_duplicate_addresses(interface for interfaces in hosts.values() for interface in interfaces or ())
    )
    try:
        site = _find_site(finder, files)
        macs, duplicate_macs = drop_duplicate_macs(
            port for interfaces in site.ports.values() for port in interfaces.values()
        )
        trial = choose_trial(fabric_name, site, macs)
    except SpecError as error:
        others = merge_problems([*host_problems, *finder.problems, *duplicate_addresses])
        raise SpecError([*error.problems, *problems, *others]) from error
    host_problems += finder.problems
    host_problems += [
        host_problem
        for host_problem in (*duplicate_addresses, *duplicate_macs)
        if host_problem.host not in trial.slots.duplicates
    ]
    host_problems += [
        *iter_mtu_problems(site),
        *iter_link_problems(site),
        *iter_leases(site),
        *trial.replaced,
        *_list_omitted_hosts(site, trial.slots),
        *trial.deviations,
    ]
    all_problems = [*problems, *trial.errors, *merge_problems(host_problems), *_summarize_deviations(site, trial)]
    return ImportResult(
        trial.fabric,
        trial.slots.by_host,
        sort_problems(all_problems),
        trial.document,
        _summarize_import(origin, site, trial, host_problems),
    )


def _find_site(finder: SiteFinder, files: HostFiles) -> RailSite:
    site = finder.find_site()
    if site is None:
        raise SpecError([_build_no_rails_problem(files)])
    return site


def _check_size(reading: HostReading) -> HostReading:
    """Return what a host's files say. Raises SpecError beyond MAX_INTERFACES."""
    if len(reading.interfaces) > MAX_INTERFACES:
        message = f"the host has {len(reading.interfaces)} interfaces; at most {MAX_INTERFACES} are read"
        raise SpecError([Problem("too-large", message, place=reading.interfaces[-1].place)])
    return reading


def _read_interfaces(
    host: str,
    files: Sequence[NamedFile],
    read_host: HostReader,
    problems: list[Problem],
    host_problems: list[HostProblem],
) -> Sequence[Interface] | None:
    """Return the interfaces of a host; None if its files cannot be read or its name is invalid."""
    if not HOST_NAME.fullmatch(host):
        message = f"{host!r} is no host name: letters, digits, '-', '_' and '.', 253 at most; rename its file"
        problems.append(Problem("bad-host", message, place=Place(files[0][0], 1, 1) if files else None))
        return None
    try:
        reading = _check_size(read_host(host, files))
    except SpecError as error:
        problems += error.problems
        host_problems.append(
            HostProblem("left-out", "left out, because a file of the host cannot be read", host, severity="error")
        )
        return None
    problems += reading.problems
    host_problems += reading.host_problems
    return reading.interfaces


def _list_omitted_hosts(site: RailSite, slots: Slots) -> list[HostProblem]:
    host_problems = []
    for host in site.ports:
        place = next(iter(site.ports[host].values())).addresses[0].place
        if host in slots.duplicates:
            message = f"{host} has the addresses of {slots.duplicates[host]}; it is left out"
            host_problems.append(HostProblem("duplicate-host", message, host, place, "error"))
        elif host not in slots.by_host:
            message = f"{host} has no address that the scheme gives to a port; it is left out"
            host_problems.append(HostProblem("off-plan", message, host, place, "error"))
    return host_problems


def _summarize_deviations(site: RailSite, trial: CandidateTrial) -> list[Problem]:
    deviating_hosts = dict.fromkeys(
        host_problem.host for host_problem in trial.deviations if host_problem.code == "off-plan"
    )
    if not deviating_hosts:
        return []
    port_count = sum(len(ports) for ports in site.ports.values())
    scheme = trial.document["spec"]["addressing"]["scheme"]
    count = sum(host_problem.code == "off-plan" for host_problem in trial.deviations)
    message = (
        f"scheme {scheme} reproduces all but {count} of {port_count} ports; those of {fold_hosts(deviating_hosts)} "
        "differ, each listed with its place"
    )
    return [Problem("not-reproduced", message, severity="error")]


def _build_no_rails_problem(files: HostFiles) -> Problem:
    message = (
        f"no rail found in the files of {format_count(len(files), 'host')}: a rail is a range in which hosts have one "
        "Ethernet port each, with a static address"
    )
    return Problem("no-rails", message)


def _summarize_import(origin: str, site: RailSite, trial: CandidateTrial, problems: list[HostProblem]) -> str:
    ports = sum(len(site.ports[host]) for host in trial.slots.by_host)
    deviation_count = sum(host_problem.code == "off-plan" for host_problem in trial.deviations)
    result = "the plan reproduces every address"
    if any(host_problem.code == "other-version" for host_problem in problems):
        result = "the plan reproduces every address of one IP version"
    if second_count := sum(host_problem.code == "second-address" for host_problem in trial.deviations):
        result += f" but {format_count(second_count, 'additional one')}"
    if port_count := sum(host_problem.code == "second-port" for host_problem in problems):
        result += f"{' and' if second_count else ' but'} those of {format_count(port_count, 'second port')}"
    if trial.replaced:
        result += (
            f", and has {format_count(len(trial.replaced), 'route, rule or VRF', 'routes, rules and VRFs')} otherwise"
        )
    if deviation_count or trial.errors:
        result = f"{deviation_count} of {ports} ports deviate from the plan"
    parts = ((len(trial.slots.by_host), "host"), (site.rail_count, "rail"), (ports, "port"))
    counts = ", ".join(format_count(count, word) for count, word in parts)
    return f"{origin}: {counts}; {result}"
