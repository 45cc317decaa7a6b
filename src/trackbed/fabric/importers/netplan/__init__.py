"""Import of the netplan files of many hosts as a Fabric whose plan reproduces their addresses.

files -> files.merge_network         one merged `network` for each host
      -> interfaces.InterfaceReader  interfaces, addresses and routes with their places
      -> site.SiteFinder             rails by their ranges, without management and storage
      -> schemes.iter_candidates     addressing that could have produced these addresses
      -> compare                     slots from addresses, and the plan compared with the files

Everything that does not fit is reported as a problem with its place.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.importers.netplan.compare import Slots, find_slots, iter_deviations
from trackbed.fabric.importers.netplan.duplicates import drop_duplicate_macs, iter_duplicate_addresses
from trackbed.fabric.importers.netplan.fabric import Document, build_document, iter_mtu_problems
from trackbed.fabric.importers.netplan.files import NamedFile, merge_network
from trackbed.fabric.importers.netplan.interfaces import Interface, InterfaceReader
from trackbed.fabric.importers.netplan.schemes import iter_candidates
from trackbed.fabric.importers.netplan.site import NetplanSite, SiteFinder
from trackbed.fabric.importers.result import NOTE, HostProblem, ImportResult, format_count, merge_problems
from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.model.nodes import HOST_NAME
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.plan.compute import compute_plan


class _Trial(NamedTuple):
    """A candidate: its Fabric, its slots, and the differences between its plan and the files."""

    document: Document
    fabric: Fabric
    slots: Slots
    deviations: list[HostProblem]
    errors: tuple[Problem, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key, the lowest is best: errors, hosts without a slot, deviating addresses."""
        return len(self.errors), len(self.slots.duplicates) - len(self.slots.by_host), len(self.deviations)


def import_netplan(files: Mapping[str, Sequence[NamedFile]], name: str = "imported") -> ImportResult:
    """Build a Fabric called `name` from the netplan files of each host: {host: [(path, content), ...]}.

    Raises SpecError with all problems if no host has a rail.
    """
    problems: list[Problem] = []
    host_problems: list[HostProblem] = []
    hosts = {host: _read_interfaces(host, files[host], problems, host_problems) for host in sorted(files)}
    finder = SiteFinder({host: interfaces for host, interfaces in hosts.items() if interfaces is not None})
    site = finder.find_site()
    host_problems += finder.problems
    duplicate_addresses = list(
        iter_duplicate_addresses(interface for interfaces in hosts.values() for interface in interfaces or ())
    )
    if site is None:
        raise SpecError(
            [_build_no_rails_problem(files), *problems, *merge_problems([*host_problems, *duplicate_addresses])]
        )
    macs, duplicate_macs = drop_duplicate_macs(
        port for interfaces in site.ports.values() for port in interfaces.values()
    )
    trial = _choose_trial(name, site, macs)
    host_problems += [
        host_problem
        for host_problem in (*duplicate_addresses, *duplicate_macs)
        if host_problem.host not in trial.slots.duplicates
    ]
    host_problems += [*iter_mtu_problems(site), *_iter_omitted_hosts(site, trial.slots), *trial.deviations]
    all_problems = [*problems, *trial.errors, *merge_problems(host_problems), *_report_deviations(site, trial)]
    return ImportResult(
        trial.fabric, trial.slots.by_host, _sort_problems(all_problems), trial.document, _summarize(files, site, trial)
    )


def _read_interfaces(
    host: str, files: Sequence[NamedFile], problems: list[Problem], host_problems: list[HostProblem]
) -> list[Interface] | None:
    """Return the interfaces of a host; None if its files or its name cannot be used."""
    if not HOST_NAME.fullmatch(host):
        message = f"{host!r} is no host name: letters, digits, '-', '_' and '.', 253 at most; rename its file"
        problems.append(Problem("bad-host", message, place=Place(files[0][0], 1, 1) if files else None))
        return None
    try:
        network, warnings = merge_network(files)
    except SpecError as error:
        problems += error.problems
        host_problems.append(
            HostProblem("left-out", "left out, because a file of the host cannot be read", host, severity="error")
        )
        return None
    problems += warnings
    reader = InterfaceReader(host)
    interfaces = list(reader.read_interfaces(network))
    host_problems += reader.problems
    return interfaces


def _choose_trial(name: str, site: NetplanSite, macs: Mapping[int, str]) -> _Trial:
    """Return the candidate that differs least; SpecError if a Fabric can express none of them."""
    trials: list[_Trial] = []
    problems: list[Problem] = []
    for candidate in iter_candidates(site):
        try:
            trials.append(_try_candidate(name, site, candidate, macs))
        except SpecError as error:
            prefix = (
                f"the addresses look like scheme {candidate['addressing']['scheme']}, but a Fabric cannot express that"
            )
            problems += [Problem("no-scheme", f"{prefix}: {problem.message}") for problem in error.problems]
    if not trials:
        raise SpecError(problems)
    return min(trials, key=lambda trial: trial.rank)


def _try_candidate(name: str, site: NetplanSite, candidate: Document, macs: Mapping[int, str]) -> _Trial:
    """Plan a candidate, without docker's default range if the rails overlap it."""
    first_document = build_document(name, site, candidate, list(site.ports), macs)
    slots = find_slots(site, build_fabric(first_document).spec)
    trial = _plan_trial(
        build_document(name, site, candidate, list(slots.by_host) or list(site.ports), macs), site, slots
    )
    if not any(problem.code == "overlap" for problem in trial.errors):
        return trial
    spec = trial.document["spec"]
    other_ranges = {"otherRanges": {**spec.get("otherRanges", {}), "docker": []}}
    message = "rails use addresses of docker's default range 172.17.0.0/16; give docker0 another (bip in daemon.json)"
    retrial = _plan_trial({**trial.document, "spec": {**spec, **other_ranges}}, site, slots)
    return retrial._replace(
        deviations=[HostProblem("docker-range", message, next(iter(site.ports))), *retrial.deviations]
    )


def _plan_trial(document: Document, site: NetplanSite, slots: Slots) -> _Trial:
    fabric = build_fabric(document)
    errors = [problem for problem in check_fabric(fabric.spec) if problem.severity == "error"]
    try:
        network_plan = compute_plan(fabric, slots.by_host)
    except SpecError as error:
        return _Trial(document, fabric, slots, [], (*errors, *error.problems))
    return _Trial(document, fabric, slots, list(iter_deviations(site, network_plan)), tuple(errors))


def _iter_omitted_hosts(site: NetplanSite, slots: Slots) -> list[HostProblem]:
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


def _report_deviations(site: NetplanSite, trial: _Trial) -> list[Problem]:
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


def _build_no_rails_problem(files: Mapping[str, Sequence[NamedFile]]) -> Problem:
    message = (
        f"no rail found in the files of {format_count(len(files), 'host')}: a rail is a range in which hosts have one "
        "Ethernet port each, with a static address"
    )
    return Problem("no-rails", message)


def _summarize(files: Mapping[str, Sequence[NamedFile]], site: NetplanSite, trial: _Trial) -> str:
    ports = sum(len(site.ports[host]) for host in trial.slots.by_host)
    deviation_count = sum(host_problem.code == "off-plan" for host_problem in trial.deviations)
    result = (
        f"{deviation_count} of {ports} ports deviate from the plan"
        if deviation_count or trial.errors
        else "the plan reproduces every address"
    )
    parts = ((len(trial.slots.by_host), "host"), (site.rail_count, "rail"), (ports, "port"))
    counts = ", ".join(format_count(count, word) for count, word in parts)
    return f"{format_count(sum(map(len, files.values())), 'netplan file')}: {counts}; {result}"


def _sort_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return errors first and notes last, each by place."""
    rank = {"error": 0, "warning": 1, NOTE: 2}
    return tuple(
        sorted(
            problems,
            key=lambda problem: (
                rank[problem.severity],
                problem.place or Place("", 0, 0),
                problem.code,
                problem.message,
            ),
        )
    )
