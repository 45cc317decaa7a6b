"""Trial of each candidate: its Fabric, slots and plan, compared with the files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from trackbed.fabric.importers.inference.compare import Slots, find_nearest, find_slots, iter_deviations
from trackbed.fabric.importers.inference.document import Document, build_document
from trackbed.fabric.importers.inference.grouping import is_narrow
from trackbed.fabric.importers.inference.replaced import iter_replaced
from trackbed.fabric.importers.inference.schemes import iter_candidates
from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.fabric import Fabric, FabricSpec
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.compute import build_layouts, compute_plan


class CandidateTrial(NamedTuple):
    """A candidate Fabric, its slots, and the differences between its plan and the files."""

    document: Document
    fabric: Fabric
    slots: Slots
    deviations: list[HostProblem]
    errors: tuple[Problem, ...]
    replaced: tuple[HostProblem, ...] = ()
    """Routes, rules and VRFs that the plan does not have."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sort key, the lowest is best: errors, hosts without a slot, deviating addresses."""
        return len(self.errors), len(self.slots.duplicates) - len(self.slots.by_host), len(self.deviations)


def choose_trial(fabric_name: str, site: RailSite, macs: Mapping[int, str]) -> CandidateTrial:
    """Return the candidate whose plan differs least from the files; SpecError if no candidate is a valid Fabric.

    IPv6 is left out if it is what differs on most ports.
    """
    trial = _choose_trial(fabric_name, site, macs)
    if V4 not in site.ranges or V6 not in site.ranges or _is_sound(trial, site):
        return trial
    site4 = replace(site, ranges={V4: site.ranges[V4]}, supernets={V4: site.supernets[V4]})
    trial4 = _choose_trial(fabric_name, site4, macs)
    if not _is_sound(trial4, site):
        return trial
    return trial4._replace(deviations=[_build_ipv6_problem(site, trial4), *trial4.deviations])


def _is_sound(trial: CandidateTrial, site: RailSite) -> bool:
    """Return whether a candidate is a plan from which less than half of the ports deviate.

    An additional address deviates from every plan.
    """
    count = sum(deviation.code != "second-address" for deviation in trial.deviations)
    return not trial.errors and count * 2 <= sum(map(len, site.ports.values()))


def _build_ipv6_problem(site: RailSite, trial: CandidateTrial) -> HostProblem:
    addresses = (site.find_address(host, rail, V6) for host, ports in site.ports.items() for rail in ports)
    address = next(address for address in addresses if address)
    scheme = trial.document["spec"]["addressing"]["scheme"]
    message = (
        f"the IPv6 addresses, as {address}, are none that a Fabric has beside scheme {scheme} in IPv4; all of them "
        "are left out: renumber them, or keep them in a file of their own"
    )
    return HostProblem("other-version", message, next(iter(site.ports)), address.place, "error")


def _choose_trial(fabric_name: str, site: RailSite, macs: Mapping[int, str]) -> CandidateTrial:
    trials: list[CandidateTrial] = []
    problems: list[Problem] = []
    for candidate in iter_candidates(site):
        try:
            trials.append(_try_candidate(fabric_name, site, candidate, macs))
        except SpecError as error:
            problems += [_build_scheme_problem(site, candidate, problem) for problem in error.problems]
    if not trials:
        raise SpecError(problems)
    return min(trials, key=lambda trial: trial.rank)


def _build_scheme_problem(site: RailSite, candidate: Document, problem: Problem) -> Problem:
    """Return why a candidate is no Fabric, at the first address of the site unless it has a place."""
    address = next(iter(next(iter(site.ports.values())).values())).addresses[0]
    scheme = candidate["addressing"]["scheme"]
    message = f"the addresses, as {address}, look like scheme {scheme}, but a Fabric cannot express that"
    reason = _explain_supernet(site, problem) or problem.message
    return Problem("no-scheme", f"{message}: {reason}", place=problem.place or address.place)


def _explain_supernet(site: RailSite, problem: Problem) -> str | None:
    """Return why there is no supernet, if that is the problem: the files do not have it, but ranges that it covers."""
    for version, ranges in site.ranges.items():
        if problem.path[-2:] == ("addressing", f"ipv{version}"):
            shown = f"{ranges[0]} to {ranges[-1]}"
            return f"the rails' ranges, {shown}, lie so far apart that only {site.supernets[version]} covers them"
    return None


def _try_candidate(fabric_name: str, site: RailSite, candidate: Document, macs: Mapping[int, str]) -> CandidateTrial:
    """Plan a candidate; if its rails overlap docker's default range, plan it again without that range."""
    first_document = build_document(fabric_name, site, candidate, list(site.ports), macs)
    spec = build_fabric(first_document).spec
    slots = find_slots(site, spec)
    if not slots.by_host:
        raise SpecError([_explain_no_slots(site, spec)])
    trial = _plan_trial(build_document(fabric_name, site, candidate, list(slots.by_host), macs), site, slots)
    if not any(problem.code == "overlap" for problem in trial.errors):
        return trial
    fields = trial.document["spec"]
    other_ranges = {"otherRanges": {**fields.get("otherRanges", {}), "docker": []}}
    message = "rails use addresses of docker's default range 172.17.0.0/16; give docker0 another (bip in daemon.json)"
    retrial = _plan_trial({**trial.document, "spec": {**fields, **other_ranges}}, site, slots)
    return retrial._replace(
        deviations=[HostProblem("docker-range", message, next(iter(site.ports))), *retrial.deviations]
    )


def _explain_no_slots(site: RailSite, spec: FabricSpec) -> Problem:
    """Return why no host has a port with an address that a scheme gives."""
    ports = [
        (address, layouts[rail][1])
        for version, layouts in ((version, build_layouts(spec, version)) for version in site.ranges)
        for host, rails in site.ports.items()
        for rail in rails
        if (address := site.find_address(host, rail, version))
    ]
    odd = [address for address, _ in ports if is_narrow(address.version, address.prefix) and address.number & 1]
    first, layout = ports[0]
    nearest = find_nearest(layout, first.number) if layout else None
    beside = f", beside which the scheme gives {nearest}" if nearest else ""
    reason = f"no host has an address that the scheme gives to a port, as {first}{beside}"
    if len(odd) * 2 > len(ports):
        reason = f"hosts have the odd address of their subnet, as {odd[0]}, which is the leaf's; exchange the two"
    return Problem("no-scheme", reason, place=first.place)


def _plan_trial(document: Document, site: RailSite, slots: Slots) -> CandidateTrial:
    fabric = build_fabric(document)
    errors = [problem for problem in check_fabric(fabric.spec) if problem.severity == "error"]
    try:
        network_plan = compute_plan(fabric, slots.by_host)
    except SpecError as error:
        return CandidateTrial(document, fabric, slots, [], (*errors, *error.problems))
    deviations, replaced = list(iter_deviations(site, network_plan)), tuple(iter_replaced(site, network_plan))
    return CandidateTrial(document, fabric, slots, deviations, tuple(errors), replaced)
