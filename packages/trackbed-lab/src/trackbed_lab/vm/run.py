"""A run over emulated servers: from factory state to RDMA between pods, by `trackbed apply` and one real reboot.

    servers    new ones: the kernel's interface names, MTU 1500, no VFs, no huge pages, no IOMMU pass-through
    apply      `trackbed apply` on each; it asks for a reboot
    reboot     a real one
    again      a second `trackbed apply` changes nothing
    doctor     all checks pass
    pods       a namespace with a VF for each rail
    rdma       writes within every rail, and between rails, as planned
    cm         connections within every rail by the RDMA CM

In exclusive mode soft-RoCE devices cannot leave the first namespace, so such a run ends after doctor.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trackbed.fabric.plan.plan import Plan, PortPlan
from trackbed.fabric.plan.plan_file import write_plan
from trackbed_lab.run_result import Phase
from trackbed_lab.vm import pods
from trackbed_lab.vm.channel import ChannelError, CommandResult, execute
from trackbed_lab.vm.lab import VmLab, VmLabError, reboot_server
from trackbed_lab.vm.machine import VFS, LabShape, find_problems, locate_shared_folder
from trackbed_lab.vm.router import Gateway

FABRIC, PLAN = "/run/own/fabric.yaml", "/run/own/plan.json"
"""The Fabric and its plan on a server. Loading the plan needs no Fabric models: commands start in half the time."""
SECONDS = 240.0
_FACTORY = """
udevadm settle --timeout=60
for pf in /sys/bus/pci/drivers/igb/0000:*; do cat $pf/sriov_numvfs $pf/net/*/mtu; done | sort | uniq -c
grep -cw iommu=pt /proc/cmdline
cat /sys/module/ib_core/parameters/netns_mode
"""
_FIGURES = re.compile(r"^\s*65536\s+\d+\s+([\d.]+)\s+([\d.]+)", re.MULTILINE)
ReportPhase = Callable[[Phase], None]


class UnfitError(Exception):
    """The Fabric cannot be emulated; the message says why."""


@dataclass(slots=True)
class VmRun:
    """A run in progress."""

    lab: VmLab
    plan: Plan
    report: ReportPhase
    phases: list[Phase] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all phases so far went as planned."""
        return all(phase.ok for phase in self.phases)

    def run_phase(self, name: str, work: Callable[[], tuple[str, bool]]) -> bool:
        """Run, time and report one phase, unless an earlier one failed; return whether it succeeded."""
        if not self.ok:
            return False
        start = time.monotonic()
        try:
            summary, ok = work()
        except (ChannelError, VmLabError) as error:
            summary, ok = str(error), False
        phase = Phase(name, time.monotonic() - start, summary, ok)
        self.phases.append(phase)
        self.report(phase)
        return ok

    def run_everywhere(self, argv: Sequence[str]) -> list[CommandResult]:
        """Run one command on all servers at once."""
        return self.run_each([list(argv)] * len(self.plan.nodes))

    def run_each(self, commands: Sequence[Sequence[str]]) -> list[CommandResult]:
        """Run each server's command, all at once; results are in the order of the nodes."""
        channels = [self.lab.find_server(node.name).channel for node in self.plan.nodes]
        with ThreadPoolExecutor(max_workers=len(channels)) as pool:
            return list(pool.map(lambda channel, argv: execute(channel, argv, SECONDS), channels, commands))


def derive_shape(plan: Plan, template: LabShape) -> LabShape:
    """Return the template with the servers, rails, leaves and gateways of a plan.

    Raises:
        UnfitError: emulated servers cannot be as the Fabric describes.
    """
    _check_fits(plan)
    node = plan.nodes[0]
    subnets = [port.v4 for port in node.ports if port.v4 is not None and port.v4.gateway]
    gateways = [Gateway(subnet.gateway, subnet.subnet.base, subnet.prefix) for subnet in subnets]
    return msgspec.structs.replace(
        template,
        servers=len(plan.nodes),
        rails=len(node.ports),
        leaves=[port.leaf for port in node.ports],
        gateways=gateways if len(gateways) == len(node.ports) else [],
    )


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
    run.run_phase("apply", lambda: check_apply(run))
    run.run_phase("reboot", lambda: reboot_servers(run))
    run.run_phase("again", lambda: check_second_apply(run))
    run.run_phase("doctor", lambda: check_doctor(run))
    if plan.common.rdma_mode == "shared" and len(plan.nodes) > 1:
        run.run_phase("pods", lambda: _make_pods(run))
        run.run_phase("rdma", lambda: _check_rdma(run, pair_same_rails(plan)))
        run.run_phase("cross", lambda: _check_rdma(run, pair_cross_rails(plan)))
        run.run_phase("cm", lambda: _check_cm(run))
    return tuple(run.phases)


def begin_run(lab: VmLab, plan: Plan, fabric: bytes, boot: Phase, report: ReportPhase) -> VmRun:
    """Copy Fabric and plan to servers that have just come up, report the phase `boot`, and return the run."""
    document = write_plan(plan, plan.nodes)
    for node in plan.nodes:
        for path, content in ((FABRIC, fabric), (PLAN, document)):
            (locate_shared_folder(Path(lab.folder), node.name) / Path(path).name).write_bytes(content)
    report(boot)
    return VmRun(lab, plan, report, [boot])


def _build_trackbed_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trackbed", *arguments]


def check_factory_state(run: VmRun) -> tuple[str, bool]:
    """Check that no setting of the plan is applied yet."""
    settings = [result.output.decode().split() for result in run.run_everywhere(["sh", "-c", _FACTORY])]
    rails = str(run.lab.shape.rails)
    fresh = all(values == [rails, "0", rails, "1500", "0", "Y"] for values in settings)
    return f"no VFs, MTU 1500, no IOMMU pass-through, shared RDMA mode: {'yes' if fresh else settings}", fresh


CommandDocument = tuple[dict[str, Any] | None, str]
"""The JSON document that a command printed; or None, and the end of its output."""


def apply_locally(run: VmRun) -> list[CommandDocument]:
    """Run `trackbed apply` on each server; return what it printed."""
    argv = _build_trackbed_command("apply", "--yes", "-f", FABRIC, "-o", "json")
    return [_parse_document(result) for result in run.run_everywhere(argv)]


def check_apply(run: VmRun, apply: Callable[[VmRun], list[CommandDocument]] = apply_locally) -> tuple[str, bool]:
    """Apply the plan to servers in factory state; check that nothing is left to change and each asks for a reboot."""
    answers, problem = _collect_documents(apply(run))
    if problem:
        return problem, False
    counts, files = [answer["applied"] for answer in answers], [len(answer["files"]) for answer in answers]
    left = _list_remaining(answers)
    ok = not left and all(answer["reboot"] for answer in answers)
    return f"{counts} changes, {files} files; asks for a reboot{f'; left: {left}' if left else ''}", ok


def check_second_apply(run: VmRun) -> tuple[str, bool]:
    """Run `trackbed apply` a second time; check that it changes nothing."""
    answers, problem = _collect_documents(apply_locally(run))
    if problem:
        return problem, False
    counts, files = [answer["applied"] for answer in answers], [len(answer["files"]) for answer in answers]
    if not any((*counts, *files)) and not any(answer["changes"] for answer in answers):
        return "nothing to change", True
    return f"changed {counts} settings and {files} files again; left: {_list_remaining(answers)}", False


def _collect_documents(documents: list[CommandDocument]) -> tuple[list[dict[str, Any]], str]:
    """Return the documents, and the output of the first command that printed none ("" if all did)."""
    problem = next((output for document, output in documents if document is None), "")
    return [document for document, _ in documents if document is not None], problem


def _list_remaining(answers: list[dict[str, Any]]) -> list[str]:
    """Return the differences that the next boot will not resolve."""
    return [change["what"] for answer in answers for change in answer["changes"] if not change.get("reboot")]


def reboot_servers(run: VmRun) -> tuple[str, bool]:
    """Reboot all servers at once and wait until systemd has started all units."""
    names = [node.name for node in run.plan.nodes]
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        durations = list(pool.map(lambda name: reboot_server(run.lab, name), names))
    run.run_everywhere(["timeout", f"{SECONDS / 2:.0f}", "systemctl", "is-system-running", "--wait"])
    arguments = run.lab.read_state(names[0]).arguments
    return f"{', '.join(f'{seconds:.0f} s' for seconds in durations)}; kernel arguments: {arguments}", True


def check_doctor(run: VmRun) -> tuple[str, bool]:
    """Check that every check of every server passes."""
    argv = _build_trackbed_command("doctor", "--all", "-f", PLAN, "-o", "json")
    reports, problem = _collect_documents([_parse_document(result) for result in run.run_everywhere(argv)])
    if problem:
        return problem, False
    findings = [finding for report in reports for finding in report["findings"]]
    failures = [
        f"; {finding['node']}: {finding['id']} {finding['verdict']} ({finding.get('evidence')})"
        for finding in findings
        if finding["verdict"] != "pass"
    ]
    return f"{len(findings) - len(failures)} of {len(findings)} checks passed{''.join(failures)}", not failures


def _make_pods(run: VmRun) -> tuple[str, bool]:
    results = run.run_each([["sh", "-c", pods.render_pods_script(node)] for node in run.plan.nodes])
    failures = [_summarize_output(result) for result in results if result.status]
    count = sum(len(node.ports) for node in run.plan.nodes)
    return (failures[0], False) if failures else (f"{count} namespaces with a VF and a soft-RoCE device each", True)


Pair = tuple[PortPlan, PortPlan]
"""A sender and its receiver: a port of the first server and one of the second."""


def pair_same_rails(plan: Plan) -> list[Pair]:
    """Return a pair within each rail."""
    first, second = plan.nodes[:2]
    return list(zip(first.ports, second.ports, strict=True))


def pair_cross_rails(plan: Plan) -> list[Pair]:
    """Return a pair from each rail to the next one."""
    first, second = plan.nodes[:2]
    return [(port, second.ports[(index + 1) % len(second.ports)]) for index, port in enumerate(first.ports)]


def _check_rdma(run: VmRun, pairs: list[Pair]) -> tuple[str, bool]:
    """Write between all pairs over RDMA; check that as many succeed as the plan allows."""
    routed = run.plan.common.cross_rail == "routed"
    expected = [pair for pair in pairs if pair[0].rail == pair[1].rail or routed]
    script = "".join(pods.render_bandwidth_server(receiver, number) for number, (_, receiver) in enumerate(pairs))
    _start_on_second(run, script)
    commands = [
        pods.render_bandwidth_client(sender, receiver, number) for number, (sender, receiver) in enumerate(pairs)
    ]
    rates = [float(match[1]) for output in _run_on_first(run, commands) if (match := _FIGURES.search(output))]
    summary = f"{len(rates)} of {len(pairs)} pairs, {len(expected)} planned"
    if rates:
        summary += f"; {min(rates):.1f} to {max(rates):.1f} MB/s each"
    return summary, len(rates) == len(expected)


def _check_cm(run: VmRun) -> tuple[str, bool]:
    """Connect the pods within every rail by the RDMA CM."""
    pairs = pair_same_rails(run.plan)
    _start_on_second(run, "".join(pods.render_cm_server(receiver) for _, receiver in pairs))
    commands = [f"{pods.render_cm_client(sender, receiver).strip()} && echo connected" for sender, receiver in pairs]
    connected = sum("connected" in output for output in _run_on_first(run, commands))
    return f"rping over {connected} of {len(pairs)} rails", connected == len(pairs)


def _start_on_second(run: VmRun, script: str) -> None:
    """Start a script in the background of the second server."""
    second = run.lab.find_server(run.plan.nodes[1].name).channel
    execute(second, ["setsid", "-f", "sh", "-c", script], SECONDS)


def _run_on_first(run: VmRun, commands: Iterable[str]) -> list[str]:
    """Run the commands on the first server, all at once, and return their outputs.

    Each is retried with a delay, until its peer on the second server is listening.
    """
    first = run.lab.find_server(run.plan.nodes[0].name).channel
    scripts = [
        f"for try in 1 2 3 4 5; do sleep 1; {shlex.join(['sh', '-c', command])} && break; done" for command in commands
    ]
    with ThreadPoolExecutor(max_workers=len(scripts)) as pool:
        results = list(pool.map(lambda script: execute(first, ["sh", "-c", script], SECONDS), scripts))
    return [(result.output + result.errors).decode(errors="replace") for result in results]


def _parse_document(result: CommandResult) -> CommandDocument:
    try:
        return msgspec.json.decode(result.output, type=dict[str, Any]), ""
    except msgspec.DecodeError:
        return None, _summarize_output(result)


def _summarize_output(result: CommandResult) -> str:
    lines = (result.errors or result.output).decode(errors="replace").strip().splitlines()
    return f"status {result.status}: {' / '.join(lines[-4:])}"
