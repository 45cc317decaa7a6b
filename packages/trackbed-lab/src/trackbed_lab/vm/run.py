"""A run over emulated servers: from factory state to RDMA between pods, by `trackbed apply` and one real reboot.

    servers    new ones: the kernel's interface names, MTU 1500, no VFs, no huge pages, no IOMMU pass-through
    unset      a VF whose MAC address nobody set is dropped by the switch; with an address it is not
    apply      `trackbed apply` on each server requires a reboot
    reboot     all servers reboot
    again      a second `trackbed apply` changes nothing
    misfit     Fabrics that do not fit are refused, and the network stays byte for byte
    reload     the NICs' drivers are loaded again: udev starts each port's unit, and everything is as planned again
    doctor     all checks pass
    pods       a namespace with a VF for each rail
    rdma       writes within every rail, and between rails, as planned
    cm         connections within every rail by the RDMA CM

In exclusive mode soft-RoCE devices cannot leave the first namespace, so such a run ends after doctor.
"""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.plan.plan_file import encode_plan
from trackbed_lab.run_result import Phase, PhaseOutcome
from trackbed_lab.vm import misfit, pods, traffic, vf_trial
from trackbed_lab.vm.channel import ChannelError, CommandResult, execute_command
from trackbed_lab.vm.lab import VmLab, VmLabError, reboot_server
from trackbed_lab.vm.machine import VFS, LabShape, find_problems, locate_shared_folder
from trackbed_lab.vm.router import Gateway
from trackbed_lab.vm.switch import read_refused

FABRIC, PLAN = "/run/own/fabric.yaml", "/run/own/plan.json"
"""The Fabric and its plan on a server. Loading the plan needs no Fabric models: commands start in half the time."""
SECONDS = 900.0
_FACTORY = """
udevadm settle --timeout=60
for pf in /sys/bus/pci/drivers/igb/0000:*; do cat $pf/sriov_numvfs $pf/net/*/mtu; done | sort | uniq -c
grep -cw iommu=pt /proc/cmdline
cat /sys/module/ib_core/parameters/netns_mode
"""
ReportPhase = Callable[[Phase], None]


class UnfitError(Exception):
    """The Fabric cannot be emulated; the message says why."""


@dataclass(slots=True)
class VmRun:
    """A run over emulated servers in progress, with the phases so far."""

    lab: VmLab
    plan: Plan
    report: ReportPhase
    phases: list[Phase] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    """What the phase in progress has measured."""

    @property
    def ok(self) -> bool:
        """Whether all phases so far went as planned."""
        return all(phase.ok for phase in self.phases)

    def run_phase(self, name: str, work: Callable[[], PhaseOutcome], *, after_failure: bool = False) -> bool:
        """Run, time and report one phase, unless an earlier one failed; return whether it succeeded.

        `after_failure`: run it also if an earlier one failed.
        """
        if not (self.ok or after_failure):
            return False
        start = time.monotonic()
        try:
            summary, ok = work()
        except (ChannelError, VmLabError) as error:
            summary, ok = str(error), False
        phase = Phase(name, time.monotonic() - start, summary, ok, self.figures)
        self.figures = {}
        self.phases.append(phase)
        self.report(phase)
        return ok is True

    def run_on_servers(self, argv: Sequence[str]) -> list[CommandResult]:
        """Run one command on all servers at once; return the results in the order of the nodes."""
        return self.run_commands([list(argv)] * len(self.plan.nodes))

    def run_commands(self, commands: Sequence[Sequence[str]]) -> list[CommandResult]:
        """Run each server's command, all at once; results are in the order of the nodes."""
        channels = [self.lab.find_server(node.name).channel for node in self.plan.nodes]
        with ThreadPoolExecutor(max_workers=len(channels)) as pool:
            return list(pool.map(lambda channel, argv: execute_command(channel, argv, SECONDS), channels, commands))


def derive_shape(plan: Plan, template: LabShape) -> LabShape:
    """Return the template with the servers, rails, leaves and gateways of a plan.

    Raises:
        UnfitError: emulated servers cannot be as the Fabric describes.
    """
    _check_fits(plan)
    rails = len(plan.nodes[0].ports)
    gateways = [_list_gateways(plan, rail) for rail in range(rails)]
    return msgspec.structs.replace(
        template,
        servers=len(plan.nodes),
        rails=rails,
        leaves=[[port.leaf for port in node.ports] for node in plan.nodes],
        gateways=gateways if all(gateways) else [],
    )


def _list_gateways(plan: Plan, rail: int) -> list[Gateway]:
    """Return the gateways of a rail's subnets; with scheme point-to-point each node has its own."""
    blocks = [node.ports[rail].v4 for node in plan.nodes]
    gateways = [Gateway(block.gateway, block.subnet.base, block.prefix) for block in blocks if block and block.gateway]
    return list(dict.fromkeys(gateways))


def _check_fits(plan: Plan) -> None:
    names = [node.name for node in plan.nodes]
    shape = LabShape(servers=len(names), rails=len(plan.nodes[0].ports))
    problems = find_problems(shape)
    if problems:
        raise UnfitError(f"this Fabric cannot be emulated: {'; '.join(problems)}")
    if names != shape.list_servers():
        servers = ", ".join(shape.list_servers())
        raise UnfitError(f"emulated servers are called {servers}, and the Fabric has {names[0]}")
    if plan.common.vfs > VFS:
        raise UnfitError(f"the Fabric wants {plan.common.vfs} VFs of a port; an emulated NIC has {VFS}")


def run_phases(lab: VmLab, plan: Plan, fabric: bytes, boot: Phase, report: ReportPhase) -> tuple[Phase, ...]:
    """Run all phases on servers that have just come up; `boot` is the phase that started them."""
    run = begin_run(lab, plan, fabric, boot, report)
    run.run_phase("factory", lambda: check_factory_state(run))
    if len(plan.nodes) > 1:
        run.run_phase("unset", lambda: check_unset_addresses(run))
    run.run_phase("apply", lambda: check_apply(run))
    run.run_phase("reboot", lambda: reboot_servers(run))
    run.run_phase("again", lambda: check_second_apply(run))
    run.run_phase("misfit", lambda: check_misfits(run))
    run.run_phase("reload", lambda: reload_drivers(run))
    run.run_phase("doctor", lambda: check_doctor(run))
    if plan.common.rdma_mode == "shared" and len(plan.nodes) > 1:
        run.run_phase("pods", lambda: _make_pods(run))
        run.run_phase("rdma", lambda: _check_rdma(run, traffic.pair_same_rails(plan)))
        run.run_phase("cross", lambda: _check_rdma(run, traffic.pair_cross_rails(plan)))
        run.run_phase("cm", lambda: traffic.check_cm(_pick_servers(run), traffic.pair_same_rails(plan)))
    return tuple(run.phases)


def begin_run(lab: VmLab, plan: Plan, fabric: bytes, boot: Phase, report: ReportPhase) -> VmRun:
    """Copy Fabric and plan to servers that have just come up, report the phase `boot`, and return the run."""
    document = encode_plan(plan, plan.nodes)
    for node in plan.nodes:
        for path, content in ((FABRIC, fabric), (PLAN, document)):
            (locate_shared_folder(Path(lab.folder), node.name) / Path(path).name).write_bytes(content)
    report(boot)
    return VmRun(lab, plan, report, [boot])


def build_trackbed_command(*arguments: str) -> list[str]:
    """Return the command that runs `trackbed` in a server."""
    return [sys.executable, "-m", "trackbed", *arguments]


def check_factory_state(run: VmRun) -> PhaseOutcome:
    """Check that no setting of the plan is applied yet."""
    settings = [result.output.decode().split() for result in run.run_on_servers(["sh", "-c", _FACTORY])]
    rails = str(run.lab.shape.rails)
    fresh = all(values == [rails, "0", rails, "1500", "0", "Y"] for values in settings)
    return f"no VFs, MTU 1500, no IOMMU pass-through, shared RDMA mode: {'yes' if fresh else settings}", fresh


CommandDocument = tuple[dict[str, Any] | None, str]
"""The JSON document that a command printed; or None, and the end of its output."""


def apply_locally(run: VmRun) -> list[CommandDocument]:
    """Run `trackbed apply` on each server; return the printed documents."""
    argv = build_trackbed_command("apply", "--yes", "-f", FABRIC, "-o", "json")
    return [_parse_document(result) for result in run.run_on_servers(argv)]


def check_apply(run: VmRun, apply: Callable[[VmRun], list[CommandDocument]] = apply_locally) -> PhaseOutcome:
    """Apply the plan to servers in factory state; check that nothing is left to change and each asks for a reboot."""
    documents, problem = _collect_documents(apply(run))
    if problem:
        return problem, False
    counts, files = [answer["applied"] for answer in documents], [len(answer["files"]) for answer in documents]
    left = _list_remaining(documents)
    ok = not left and all(answer["reboot"] for answer in documents)
    return f"{counts} changes, {files} files; asks for a reboot{f'; left: {left}' if left else ''}", ok


def check_second_apply(run: VmRun) -> PhaseOutcome:
    """Run `trackbed apply` a second time; check that it changes nothing.

    The network's manager first gets its time: it configures ports after the boot, on a busy machine long after.
    """
    script = vf_trial.render_comparison(build_trackbed_command("diff", "-f", FABRIC))
    for result in run.run_on_servers(["sh", "-c", script]):
        if result.status:
            return summarize_output(result), False
    documents, problem = _collect_documents(apply_locally(run))
    if problem:
        return problem, False
    counts, files = [answer["applied"] for answer in documents], [len(answer["files"]) for answer in documents]
    if not any((*counts, *files)) and not any(answer["changes"] for answer in documents):
        return "nothing to change", True
    return f"changed {counts} settings and {files} files again; left: {_list_remaining(documents)}", False


def _collect_documents(documents: list[CommandDocument]) -> tuple[list[dict[str, Any]], str]:
    """Return the documents, and the output of the first command that printed none ("" if all did)."""
    problem = next((output for document, output in documents if document is None), "")
    return [document for document, _ in documents if document is not None], problem


def _list_remaining(documents: list[dict[str, Any]]) -> list[str]:
    """Return the subjects of the differences that remain after the next boot."""
    return [change["what"] for answer in documents for change in answer["changes"] if not change.get("reboot")]


def reboot_servers(run: VmRun) -> PhaseOutcome:
    """Reboot all servers at once and wait until systemd has started all units."""
    names = [node.name for node in run.plan.nodes]
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        durations = list(pool.map(lambda name: reboot_server(run.lab, name), names))
    run.run_on_servers(["timeout", f"{SECONDS / 2:.0f}", "systemctl", "is-system-running", "--wait"])
    arguments = run.lab.read_state(names[0]).arguments
    return f"{', '.join(f'{seconds:.0f} s' for seconds in durations)}; kernel arguments: {arguments}", True


def check_unset_addresses(run: VmRun) -> PhaseOutcome:
    """Check that a new VF reaches the other server only after its MAC address was set through its port."""
    pcis = [node.ports[0].pci or "" for node in run.plan.nodes[:2]]
    outcomes = [run_vf_trial(run, pcis, set_mac=set_mac) for set_mac in (False, True)]
    dropped, arrived = (outcome.status != 0 for outcome in outcomes)
    words = "dropped" if dropped else "not dropped"
    summary = f"a VF without a set address: {words}; with one: {'dropped' if arrived else 'arrives'}"
    ok = dropped and not arrived
    return summary + ("" if ok else f" ({summarize_output(outcomes[dropped])})"), ok


def run_vf_trial(run: VmRun, pcis: Sequence[str], *, set_mac: bool) -> CommandResult:
    """Make a VF on each of two servers, and let the first ping the second; return the result of ping."""
    scripts = [vf_trial.render_setup(pci, number, set_mac=set_mac) for number, pci in enumerate(pcis)]
    commands = [
        ["sh", "-c", scripts[number] if number < len(scripts) else ":"] for number in range(len(run.plan.nodes))
    ]
    for result in run.run_commands(commands)[:2]:
        if result.status:
            raise VmLabError(f"a VF could not be set up: {summarize_output(result)}")
    first = run.lab.find_server(run.plan.nodes[0].name).channel
    pinged = execute_command(first, ["sh", "-c", vf_trial.PING], SECONDS)
    run.run_commands([["sh", "-c", vf_trial.render_cleanup(pcis[0])]] * len(run.plan.nodes))
    return pinged


def reload_drivers(run: VmRun) -> PhaseOutcome:
    """Load the NICs' drivers again; check that each port's unit ran again and a further apply changes nothing."""
    compare = build_trackbed_command("diff", "-f", FABRIC)
    scripts = [vf_trial.render_reload([port.netdev for port in node.ports], compare) for node in run.plan.nodes]
    results = run.run_commands([["sh", "-c", script] for script in scripts])
    for result in results:
        if result.status:
            return summarize_output(result), False
    summary, ok = check_second_apply(run)
    return f"{len(run.plan.nodes[0].ports)} units of ports started by udev on each server; {summary}", ok


def check_misfits(run: VmRun) -> PhaseOutcome:
    """Check that `trackbed apply` refuses Fabrics that do not fit, and that the network stays as it is."""
    results: list[tuple[str, CommandResult]] = []
    for wrong, fabric in misfit.list_misfits([node.name for node in run.plan.nodes]).items():
        results += [(wrong, result) for result in run.run_on_servers(["sh", "-c", misfit.render_attempt(fabric)])]
    return misfit.judge_attempts(results)


def check_doctor(run: VmRun) -> PhaseOutcome:
    """Check that every check of every server passes."""
    argv = build_trackbed_command("doctor", "--all", "-f", PLAN, "-o", "json")
    reports, problem = _collect_documents([_parse_document(result) for result in run.run_on_servers(argv)])
    if problem:
        return problem, False
    findings = [finding for report in reports for finding in report["findings"]]
    failures = [
        f"; {finding['node']}: {finding['id']} {finding['verdict']} ({finding.get('evidence')})"
        for finding in findings
        if finding["verdict"] != "pass"
    ]
    return f"{len(findings) - len(failures)} of {len(findings)} checks passed{''.join(failures)}", not failures


def _make_pods(run: VmRun) -> PhaseOutcome:
    results = run.run_commands([["sh", "-c", pods.render_pods_script(node)] for node in run.plan.nodes])
    failures = [summarize_output(result) for result in results if result.status]
    count = sum(len(node.ports) for node in run.plan.nodes)
    return (failures[0], False) if failures else (f"{count} namespaces with a VF and a soft-RoCE device each", True)


def _pick_servers(run: VmRun) -> traffic.Servers:
    """Return the two servers whose pods are tested."""
    return traffic.Servers(*(run.lab.find_server(node.name).channel for node in run.plan.nodes[:2]))


def _check_rdma(run: VmRun, pairs: list[traffic.PortPair]) -> PhaseOutcome:
    summary, ok = traffic.check_rdma(_pick_servers(run), pairs, routed=run.plan.common.cross_rail == "routed")
    return summary + ("" if ok else _describe_refused(run.lab)), ok


def _describe_refused(lab: VmLab) -> str:
    """Return the VFs whose frames the switch drops, as no port was given their addresses; "" without any."""
    sources = sorted(read_refused(Path(lab.folder), lab.shape))
    names = [f"{mac.hex(':')} (rail {rail}, server {server})" for rail, server, mac in sources]
    return f"; dropped by the switch, as nobody set these addresses: {', '.join(names)}" if names else ""


def _parse_document(result: CommandResult) -> CommandDocument:
    try:
        return msgspec.json.decode(result.output, type=dict[str, Any]), ""
    except msgspec.DecodeError:
        return None, summarize_output(result)


def summarize_output(result: CommandResult) -> str:
    """Return the status and the last lines of a command that failed."""
    lines = (result.errors or result.output).decode(errors="replace").strip().splitlines()
    return f"status {result.status}: {' / '.join(lines[-4:])}"
