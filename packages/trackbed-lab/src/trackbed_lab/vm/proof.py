"""A proof of emulated servers: sound first, then with one fault after the other, of which each has to be named.

servers    new ones
apply      `trackbed apply` on each server
rate       a rate is found that all ports sustain at once on this machine
sound      all ports capped at a lower one: nobody is blamed, and hardly a rate is out of line
...        a phase for each fault (module proof_faults): it is named first, and nobody else is blamed
...        and for each way in which the command is run (module proof_command): over SSH, and with a part killed
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from trackbed.fabric.plan.plan import Plan
from trackbed.prove.report import ProofReport, RungReport
from trackbed.prove.rungs import LADDER, write_bw, write_lat
from trackbed_lab.run_result import Phase, PhaseOutcome
from trackbed_lab.vm.channel import execute_command
from trackbed_lab.vm.lab import VmLabError
from trackbed_lab.vm.leaves import SwitchSettings, write_settings
from trackbed_lab.vm.proof_command import CHECKS
from trackbed_lab.vm.proof_faults import FAULTS, FaultPlace, ProofFault
from trackbed_lab.vm.run import VmRun, apply_locally, summarize_output
from trackbed_lab.vm.switch import REFUSED_SECONDS

_SCRIPT_SECONDS = 60.0
_LINE_SHARE = 1.04
"""Rate of a port in the leaf, as a share of the Fabric's. The headers of RoCE v2 are 74 bytes for 4,096 of content, and
an acknowledgement of what comes the other way is another 62."""

_LEAST_NODES, _LEAST_RAILS = 4, 2
"""With fewer nodes a port has no two partners of which both could be well."""
_RATE_TRIES, _SOUND_TRIES = 5, 3
_LESS = 0.75
"""The next rate to try, and the rate of the proofs, as a share of the last: a busy moment is no fault."""
_ODD_SHARE = 0.1
"""Share of the tests of a rate that may be neither right nor wrong enough for a blame; one always may."""
_RATES = frozenset({write_bw.RUNG.name, write_lat.RUNG.name})
"""The rung of the rate, and the one that is not tested where the rate is odd."""

Prove = Callable[[Plan, Sequence[str]], ProofReport]
"""Runs a proof of the lab's servers on these rungs and returns its report."""


def find_lack(plan: Plan) -> str:
    """Return what a plan lacks in which each fault has to be told from the others; empty if nothing."""
    nodes, rails = len(plan.nodes), len(plan.common.rails)
    if nodes < _LEAST_NODES or rails < _LEAST_RAILS:
        return f"{nodes} nodes of {rails} rails: faults are told apart from {_LEAST_NODES} nodes of {_LEAST_RAILS} on"
    if len({node.ports[-1].leaf for node in plan.nodes}) == 1:
        return "one leaf a rail: an uplink needs two; let spec.nodesPerUnit be half of the nodes"
    if plan.rate_gbps is None:
        return "no spec.rate: the search for a rate begins there; 0.0045 suits two cores without KVM"
    return ""


def run_phases(run: VmRun, prove: Prove) -> tuple[Phase, ...]:
    """Run all phases on servers that have just come up."""
    run.run_phase("apply", lambda: _apply(run))
    if prove_faults(run, FAULTS, prove):
        for name, check in CHECKS.items():
            run.run_phase(name, partial(check, run), after_failure=True)
    return tuple(run.phases)


def prove_faults(run: VmRun, faults: Sequence[ProofFault], prove: Prove, port_index: int = -1) -> bool:
    """Find a rate, prove sound servers, then name each fault; one that is not named does not keep back the next.

    `port_index` is which of the second node's ports has the faults. Return whether the servers were proved sound.
    """
    is_sound = run.run_phase("rate", lambda: _find_rate(run, prove)) and run.run_phase(
        "sound", lambda: _prove_sound(run, prove)
    )
    if is_sound:
        sound = _build_sound(run.plan)
        node = run.plan.nodes[1]
        place = FaultPlace(node, node.ports[port_index])
        for fault in faults:
            run.run_phase(fault.name, partial(_prove_fault, run, sound, fault, place, prove), after_failure=True)
    return is_sound


def _apply(run: VmRun) -> PhaseOutcome:
    documents = apply_locally(run)
    failures = [output for document, output in documents if document is None]
    left = [change["what"] for document, _ in documents if document for change in document["changes"]]
    if failures or left:
        return failures[0] if failures else f"left: {left}", False
    return f"{[document['applied'] for document, _ in documents if document]} changes", True


def _set_leaves(run: VmRun, settings: SwitchSettings) -> None:
    write_settings(Path(run.lab.folder), settings)
    time.sleep(2 * REFUSED_SECONDS)


def _build_sound(plan: Plan) -> SwitchSettings:
    """Return the settings of leaves that pass the plan's rate."""
    return SwitchSettings(gbps=None if plan.rate_gbps is None else plan.rate_gbps * _LINE_SHARE)


def _find_rate(run: VmRun, prove: Prove) -> PhaseOutcome:
    """Find a rate that all ports sustain at once, from the Fabric's downwards, and put it into the run's plan."""
    gbps, tried = run.plan.rate_gbps or 0.0, []
    for _ in range(_RATE_TRIES):
        plan = run.plan._replace(rate_gbps=gbps)
        _set_leaves(run, _build_sound(plan))
        report = prove(plan, (write_bw.RUNG.name,))
        tried.append(f"{gbps:.2g} Gb/s: {_summarize(report)}{_explain(report)}")
        gbps *= _LESS
        if is_sound(report):
            run.plan = run.plan._replace(rate_gbps=gbps)
            return f"{gbps:.2g} Gb/s, after {'; '.join(tried)}", True
    return "; ".join(tried), False


def _prove_sound(run: VmRun, prove: Prove) -> PhaseOutcome:
    """Prove, and again at a lower rate if that was not sound: one rung alone does not show what a ladder leaves of it.

    The rate that was sound is put into the run's plan.
    """
    gbps, tried = run.plan.rate_gbps or 0.0, list[str]()
    for _ in range(_SOUND_TRIES):
        run.plan = run.plan._replace(rate_gbps=gbps)
        _set_leaves(run, _build_sound(run.plan))
        report = prove(run.plan, LADDER)
        if is_sound(report):
            return "; then ".join([*tried, f"{gbps:.2g} Gb/s: {_summarize(report)}"]), True
        tried.append(f"{gbps:.2g} Gb/s: {_summarize(report)}{_explain(report)}")
        gbps *= _LESS
    return "; then ".join(tried), False


def is_sound(report: ProofReport) -> bool:
    """Return whether nobody is blamed, and all passes but a few rates: a busy moment of the machine is no fault.

    Where a rate is odd, latency is not tested; that counts once.
    """
    rungs = {rung.rung: rung for rung in report.rungs}
    odd = {name: rung.planned - rung.verdicts["pass"] - rung.verdicts["warn"] for name, rung in rungs.items()}
    if latency := rungs.get(write_lat.RUNG.name):
        odd[latency.rung] -= min(latency.verdicts["not-tested"], odd.get(write_bw.RUNG.name, 0))
    return not report.culprits and all(odd[name] <= _count_odd(rung) for name, rung in rungs.items())


def _count_odd(rung: RungReport) -> float:
    """Return how many tests of a rung may be neither right nor wrong enough for a blame."""
    return max(1.0, rung.planned * _ODD_SHARE) if rung.rung in _RATES else 0.0


def _prove_fault(run: VmRun, sound: SwitchSettings, fault: ProofFault, place: FaultPlace, prove: Prove) -> PhaseOutcome:
    """Inject a fault, prove, and heal it; check that it is named, and nothing else."""
    try:
        _set_leaves(run, fault.change_leaves(place, sound))
        _run_script(run, place, fault.break_script)
        report = prove(run.plan, LADDER)
    finally:
        _run_script(run, place, fault.heal_script)
        _set_leaves(run, sound)
    named = [fault.is_named(place, culprit) for culprit in report.culprits]
    if named and all(named):
        return _summarize(report), True
    return f"{_summarize(report)}{_explain(report)}", False


def _run_script(run: VmRun, place: FaultPlace, script: str) -> None:
    channel = run.lab.find_server(place.node.name).channel
    text = script.format(rdma=place.rdma, netdev=place.port.netdev)
    result = execute_command(channel, ["sh", "-c", text], _SCRIPT_SECONDS)
    if result.status:
        raise VmLabError(f"{text}: {summarize_output(result)}")


def _explain(report: ProofReport) -> str:
    """Return what shows the first culprit, or why tests of no culprit are bad; empty if all is sound."""
    reasons = [culprit.evidence for culprit in report.culprits][:1] or [
        *(f"suspect and not decided: {port}" for port in report.undecided),
        *(f"{test.rung} {test.where}: {test.reason}" for test in report.unexplained),
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _summarize(report: ProofReport) -> str:
    """Return the culprits of a proof, and its rungs by verdict."""
    culprits = [f"{culprit.where} ({culprit.rung})" for culprit in report.culprits]
    rungs = [
        f"{rung.rung} " + ", ".join(f"{count} {verdict}" for verdict, count in rung.verdicts.items() if count)
        for rung in report.rungs
    ]
    rungs += [f"write_bw {rung.median:.3g} Gb/s" for rung in report.rungs if rung.rung == "write_bw" and rung.median]
    return "; ".join([*(culprits or ["nobody is blamed"]), *rungs])
