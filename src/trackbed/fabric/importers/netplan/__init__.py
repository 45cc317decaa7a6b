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

from trackbed.fabric.importers.imported import NOTE, Imported, Remark, counted, folded, host_range
from trackbed.fabric.importers.netplan.compare import Slots, deviations, slots_of
from trackbed.fabric.importers.netplan.doubles import doubled_addresses, doubled_macs
from trackbed.fabric.importers.netplan.fabric import Document, document_of, odd_mtus
from trackbed.fabric.importers.netplan.files import network_of
from trackbed.fabric.importers.netplan.interfaces import Interface, Reader
from trackbed.fabric.importers.netplan.schemes import candidates
from trackbed.fabric.importers.netplan.site import Finder, Site
from trackbed.fabric.model.check import check
from trackbed.fabric.model.load import fabric_of
from trackbed.fabric.model.nodes import HOST_NAME
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.plan.compute import plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trackbed.fabric.importers.netplan.files import NamedFile
    from trackbed.fabric.model.fabric import Fabric


class _Trial(NamedTuple):
    """One candidate: its Fabric, the slots, and what its plan gives otherwise than the files."""

    document: Document
    fabric: Fabric
    slots: Slots
    wrong: list[Remark]
    refused: tuple[Problem, ...]

    @property
    def badness(self) -> tuple[int, int, int]:
        """Fewer is better: refusals, hosts that do not fit, addresses that deviate."""
        return len(self.refused), len(self.slots.doubled) - len(self.slots.of), len(self.wrong)


def import_netplan(files: Mapping[str, Sequence[NamedFile]], name: str = "imported") -> Imported:
    """Make a Fabric called `name` of the netplan files of each host: {host: [(path, content), ...]}.

    Raises SpecError with everything found when no host has a rail.
    """
    problems: list[Problem] = []
    remarks: list[Remark] = []
    hosts = {host: _interfaces(host, files[host], problems, remarks) for host in sorted(files)}
    finder = Finder({host: own for host, own in hosts.items() if own is not None})
    site = finder.site()
    remarks += finder.remarks
    doubled = list(doubled_addresses(interface for own in hosts.values() for interface in own or ()))
    if site is None:
        raise SpecError([_no_rails(files), *problems, *folded([*remarks, *doubled])])
    macs, doubled_too = doubled_macs(port for own in site.ports.values() for port in own.values())
    trial = _best(name, site, macs)
    remarks += [r for r in (*doubled, *doubled_too) if r.host not in trial.slots.doubled]
    remarks += [*odd_mtus(site), *_left_out(site, trial.slots), *trial.wrong]
    findings = [*problems, *trial.refused, *folded(remarks), *_verdict(site, trial)]
    return Imported(trial.fabric, trial.slots.of, _in_order(findings), trial.document, _summary(files, site, trial))


def _interfaces(
    host: str, files: Sequence[NamedFile], problems: list[Problem], remarks: list[Remark]
) -> list[Interface] | None:
    """The interfaces of one host; None when its files or its name cannot be used."""
    if not HOST_NAME.fullmatch(host):
        message = f"{host!r} is no host name: letters, digits, '-', '_' and '.', 253 at most; rename its file"
        problems.append(Problem("bad-host", message, place=Place(files[0][0], 1, 1) if files else None))
        return None
    try:
        network, found = network_of(files)
    except SpecError as error:
        problems += error.problems
        remarks.append(
            Remark("left-out", "left out, because a file of the host cannot be read", host, severity="error")
        )
        return None
    problems += found
    reader = Reader(host)
    interfaces = list(reader.interfaces(network))
    remarks += reader.remarks
    return interfaces


def _best(name: str, site: Site, macs: Mapping[int, str]) -> _Trial:
    """The candidate that differs least; SpecError where a Fabric can say none of them."""
    trials: list[_Trial] = []
    problems: list[Problem] = []
    for shape in candidates(site):
        try:
            trials.append(_tried(name, site, shape, macs))
        except SpecError as error:
            looks = f"the addresses look like scheme {shape['addressing']['scheme']}, but a Fabric cannot say so"
            problems += [Problem("no-scheme", f"{looks}: {problem.message}") for problem in error.problems]
    if not trials:
        raise SpecError(problems)
    return min(trials, key=lambda trial: trial.badness)


def _tried(name: str, site: Site, shape: Document, macs: Mapping[int, str]) -> _Trial:
    """Plan one candidate."""
    everybody = document_of(name, site, shape, list(site.ports), macs)
    slots = slots_of(site, fabric_of(everybody).spec)
    trial = _planned(document_of(name, site, shape, list(slots.of) or list(site.ports), macs), site, slots)
    if not any(problem.code == "overlap" for problem in trial.refused):
        return trial
    spec = trial.document["spec"]
    others = {"otherRanges": {**spec.get("otherRanges", {}), "docker": []}}
    message = "rails use addresses of docker's default range 172.17.0.0/16; give docker0 another (bip in daemon.json)"
    again = _planned({**trial.document, "spec": {**spec, **others}}, site, slots)
    return again._replace(wrong=[Remark("docker-range", message, next(iter(site.ports))), *again.wrong])


def _planned(document: Document, site: Site, slots: Slots) -> _Trial:
    fabric = fabric_of(document)
    refused = [problem for problem in check(fabric.spec) if problem.severity == "error"]
    try:
        planned = plan(fabric, slots.of)
    except SpecError as error:
        return _Trial(document, fabric, slots, [], (*refused, *error.problems))
    return _Trial(document, fabric, slots, list(deviations(site, planned)), tuple(refused))


def _left_out(site: Site, slots: Slots) -> list[Remark]:
    remarks = []
    for host in site.ports:
        place = next(iter(site.ports[host].values())).addresses[0].place
        if host in slots.doubled:
            message = f"{host} has the addresses of {slots.doubled[host]}; it is left out"
            remarks.append(Remark("duplicate-host", message, host, place, "error"))
        elif host not in slots.of:
            message = f"{host} has no address that the scheme gives to a port; it is left out"
            remarks.append(Remark("off-plan", message, host, place, "error"))
    return remarks


def _verdict(site: Site, trial: _Trial) -> list[Problem]:
    deviating = dict.fromkeys(r.host for r in trial.wrong if r.code == "off-plan")
    if not deviating:
        return []
    ports = sum(len(own) for own in site.ports.values())
    scheme = trial.document["spec"]["addressing"]["scheme"]
    count = sum(r.code == "off-plan" for r in trial.wrong)
    message = (
        f"scheme {scheme} gives back all but {count} of {ports} ports; those of {host_range(deviating)} differ as told "
        "where they stand"
    )
    return [Problem("not-reproduced", message, severity="error")]


def _no_rails(files: Mapping[str, Sequence[NamedFile]]) -> Problem:
    message = (
        f"no rail found in the files of {counted(len(files), 'host')}: a rail is a range in which hosts have one "
        "Ethernet port each, with a static address"
    )
    return Problem("no-rails", message)


def _summary(files: Mapping[str, Sequence[NamedFile]], site: Site, trial: _Trial) -> str:
    ports = sum(len(site.ports[host]) for host in trial.slots.of)
    wrong = sum(r.code == "off-plan" for r in trial.wrong)
    result = (
        f"{wrong} of {ports} ports deviate from the plan"
        if wrong or trial.refused
        else "the plan gives back every address"
    )
    parts = ((len(trial.slots.of), "host"), (site.rails, "rail"), (ports, "port"))
    shown = ", ".join(counted(count, word) for count, word in parts)
    return f"{counted(sum(map(len, files.values())), 'netplan file')}: {shown}; {result}"


def _in_order(findings: list[Problem]) -> tuple[Problem, ...]:
    """Errors first, notes last; each by place."""
    rank = {"error": 0, "warning": 1, NOTE: 2}
    return tuple(sorted(findings, key=lambda f: (rank[f.severity], f.place or Place("", 0, 0), f.code, f.message)))
