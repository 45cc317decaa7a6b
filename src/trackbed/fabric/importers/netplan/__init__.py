"""netplan files of many hosts, read as a Fabric whose plan gives back their addresses.

files -> files.network_of        one merged `network` a host
      -> interfaces.Reader       interfaces, addresses and routes with their places
      -> site.Finder             rails by their ranges; management and storage set aside
      -> schemes.candidates      what addressing could have given these addresses
      -> compare                 slots from addresses, and the plan beside the files

Nothing is guessed in silence: whatever does not fit is a finding with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trackbed.fabric.importers.imported import NOTE, HostProblem, ImportResult, fold_hosts, format_count, merge_problems
from trackbed.fabric.importers.netplan.compare import Slots, find_slots, iter_deviations
from trackbed.fabric.importers.netplan.doubles import drop_duplicate_macs, iter_duplicate_addresses
from trackbed.fabric.importers.netplan.fabric import Document, build_document, iter_mtu_problems
from trackbed.fabric.importers.netplan.files import merge_network
from trackbed.fabric.importers.netplan.interfaces import Interface, InterfaceReader
from trackbed.fabric.importers.netplan.schemes import iter_candidates
from trackbed.fabric.importers.netplan.site import NetplanSite, SiteFinder
from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.model.nodes import HOST_NAME
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.plan.compute import compute_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trackbed.fabric.importers.netplan.files import NamedFile
    from trackbed.fabric.model.fabric import Fabric


class _Trial(NamedTuple):
    """One candidate: its Fabric, the slots, and what its plan gives otherwise than the files."""

    document: Document
    fabric: Fabric
    slots: Slots
    wrong: list[HostProblem]
    refused: tuple[Problem, ...]

    @property
    def badness(self) -> tuple[int, int, int]:
        """Fewer is better: refusals, hosts that do not fit, addresses that deviate."""
        return len(self.refused), len(self.slots.duplicates) - len(self.slots.by_host), len(self.wrong)


def import_netplan(files: Mapping[str, Sequence[NamedFile]], name: str = "imported") -> ImportResult:
    """Make a Fabric called `name` of the netplan files of each host: {host: [(path, content), ...]}.

    Raises SpecError with everything found when no host has a rail.
    """
    problems: list[Problem] = []
    remarks: list[HostProblem] = []
    hosts = {host: _interfaces(host, files[host], problems, remarks) for host in sorted(files)}
    finder = SiteFinder({host: own for host, own in hosts.items() if own is not None})
    site = finder.find_site()
    remarks += finder.problems
    doubled = list(iter_duplicate_addresses(interface for own in hosts.values() for interface in own or ()))
    if site is None:
        raise SpecError([_no_rails(files), *problems, *merge_problems([*remarks, *doubled])])
    macs, doubled_too = drop_duplicate_macs(port for own in site.ports.values() for port in own.values())
    trial = _best(name, site, macs)
    remarks += [r for r in (*doubled, *doubled_too) if r.host not in trial.slots.duplicates]
    remarks += [*iter_mtu_problems(site), *_left_out(site, trial.slots), *trial.wrong]
    findings = [*problems, *trial.refused, *merge_problems(remarks), *_verdict(site, trial)]
    return ImportResult(
        trial.fabric, trial.slots.by_host, _in_order(findings), trial.document, _summary(files, site, trial)
    )


def _interfaces(
    host: str, files: Sequence[NamedFile], problems: list[Problem], remarks: list[HostProblem]
) -> list[Interface] | None:
    """The interfaces of one host; None when its files or its name cannot be used."""
    if not HOST_NAME.fullmatch(host):
        message = f"{host!r} is no host name: letters, digits, '-', '_' and '.', 253 at most; rename its file"
        problems.append(Problem("bad-host", message, place=Place(files[0][0], 1, 1) if files else None))
        return None
    try:
        network, found = merge_network(files)
    except SpecError as error:
        problems += error.problems
        remarks.append(
            HostProblem("left-out", "left out, because a file of the host cannot be read", host, severity="error")
        )
        return None
    problems += found
    reader = InterfaceReader(host)
    interfaces = list(reader.read_interfaces(network))
    remarks += reader.problems
    return interfaces


def _best(name: str, site: NetplanSite, macs: Mapping[int, str]) -> _Trial:
    """The candidate that differs least; SpecError where a Fabric can say none of them."""
    trials: list[_Trial] = []
    problems: list[Problem] = []
    for shape in iter_candidates(site):
        try:
            trials.append(_tried(name, site, shape, macs))
        except SpecError as error:
            looks = f"the addresses look like scheme {shape['addressing']['scheme']}, but a Fabric cannot say so"
            problems += [Problem("no-scheme", f"{looks}: {problem.message}") for problem in error.problems]
    if not trials:
        raise SpecError(problems)
    return min(trials, key=lambda trial: trial.badness)


def _tried(name: str, site: NetplanSite, shape: Document, macs: Mapping[int, str]) -> _Trial:
    """Plan one candidate."""
    everybody = build_document(name, site, shape, list(site.ports), macs)
    slots = find_slots(site, build_fabric(everybody).spec)
    trial = _planned(build_document(name, site, shape, list(slots.by_host) or list(site.ports), macs), site, slots)
    if not any(problem.code == "overlap" for problem in trial.refused):
        return trial
    spec = trial.document["spec"]
    others = {"otherRanges": {**spec.get("otherRanges", {}), "docker": []}}
    message = "rails use addresses of docker's default range 172.17.0.0/16; give docker0 another (bip in daemon.json)"
    again = _planned({**trial.document, "spec": {**spec, **others}}, site, slots)
    return again._replace(wrong=[HostProblem("docker-range", message, next(iter(site.ports))), *again.wrong])


def _planned(document: Document, site: NetplanSite, slots: Slots) -> _Trial:
    fabric = build_fabric(document)
    refused = [problem for problem in check_fabric(fabric.spec) if problem.severity == "error"]
    try:
        planned = compute_plan(fabric, slots.by_host)
    except SpecError as error:
        return _Trial(document, fabric, slots, [], (*refused, *error.problems))
    return _Trial(document, fabric, slots, list(iter_deviations(site, planned)), tuple(refused))


def _left_out(site: NetplanSite, slots: Slots) -> list[HostProblem]:
    remarks = []
    for host in site.ports:
        place = next(iter(site.ports[host].values())).addresses[0].place
        if host in slots.duplicates:
            message = f"{host} has the addresses of {slots.duplicates[host]}; it is left out"
            remarks.append(HostProblem("duplicate-host", message, host, place, "error"))
        elif host not in slots.by_host:
            message = f"{host} has no address that the scheme gives to a port; it is left out"
            remarks.append(HostProblem("off-plan", message, host, place, "error"))
    return remarks


def _verdict(site: NetplanSite, trial: _Trial) -> list[Problem]:
    deviating = dict.fromkeys(r.host for r in trial.wrong if r.code == "off-plan")
    if not deviating:
        return []
    ports = sum(len(own) for own in site.ports.values())
    scheme = trial.document["spec"]["addressing"]["scheme"]
    count = sum(r.code == "off-plan" for r in trial.wrong)
    message = (
        f"scheme {scheme} gives back all but {count} of {ports} ports; those of {fold_hosts(deviating)} differ as told "
        "where they stand"
    )
    return [Problem("not-reproduced", message, severity="error")]


def _no_rails(files: Mapping[str, Sequence[NamedFile]]) -> Problem:
    message = (
        f"no rail found in the files of {format_count(len(files), 'host')}: a rail is a range in which hosts have one "
        "Ethernet port each, with a static address"
    )
    return Problem("no-rails", message)


def _summary(files: Mapping[str, Sequence[NamedFile]], site: NetplanSite, trial: _Trial) -> str:
    ports = sum(len(site.ports[host]) for host in trial.slots.by_host)
    wrong = sum(r.code == "off-plan" for r in trial.wrong)
    result = (
        f"{wrong} of {ports} ports deviate from the plan"
        if wrong or trial.refused
        else "the plan gives back every address"
    )
    parts = ((len(trial.slots.by_host), "host"), (site.rail_count, "rail"), (ports, "port"))
    shown = ", ".join(format_count(count, word) for count, word in parts)
    return f"{format_count(sum(map(len, files.values())), 'netplan file')}: {shown}; {result}"


def _in_order(findings: list[Problem]) -> tuple[Problem, ...]:
    """Errors first, notes last; each by place."""
    rank = {"error": 0, "warning": 1, NOTE: 2}
    return tuple(sorted(findings, key=lambda f: (rank[f.severity], f.place or Place("", 0, 0), f.code, f.message)))
