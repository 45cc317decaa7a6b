"""One run over emulated servers: from factory state to RDMA between pods, by `trackbed apply` and one real reboot.

    servers    new ones: kernel's own names, MTU 1500, no VFs, no huge pages, no IOMMU pass-through
    apply      `trackbed apply` on each; it asks for a reboot
    reboot     a real one
    again      `trackbed apply` once more: it changes nothing
    doctor     every step is sound
    pods       a namespace with a VF for each rail
    rdma       writes over every rail, and from rail to rail, as planned
    cm         the same rails by the RDMA CM

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
from trackbed.fabric.plan.wire import plan_document
from trackbed_lab.run_result import Phase
from trackbed_lab.vm import lab, pods
from trackbed_lab.vm.channel import ChannelError, CommandResult, execute
from trackbed_lab.vm.machine import VFS, LabShape, find_problems, locate_shared_folder
from trackbed_lab.vm.router import Gateway

FABRIC, PLAN = "/run/own/fabric.yaml", "/run/own/plan.json"
"""Where a server has the Fabric, and its plan: who reads that needs no models of a Fabric, half of a start there."""
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
    """The Fabric is none for emulated servers; the message says why."""


@dataclass(slots=True)
class VmRun:
    """A run under way."""

    here: lab.VmLab
    plan: Plan
    report: ReportPhase
    phases: list[Phase] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all went as planned so far."""
        return all(phase.ok for phase in self.phases)

    def run_phase(self, name: str, work: Callable[[], tuple[str, bool]]) -> bool:
        """Do one phase, time it, tell it; after one that failed no other is begun."""
        if not self.ok:
            return False
        began = time.monotonic()
        try:
            summary, ok = work()
        except (ChannelError, lab.VmLabError) as error:
            summary, ok = str(error), False
        done = Phase(name, time.monotonic() - began, summary, ok)
        self.phases.append(done)
        self.report(done)
        return ok

    def run_everywhere(self, argv: Sequence[str]) -> list[CommandResult]:
        """Run a command in all servers at once."""
        return self.run_each([list(argv)] * len(self.plan.nodes))

    def run_each(self, commands: Sequence[Sequence[str]]) -> list[CommandResult]:
        """Run a command in each server, all at once."""
        channels = [self.here.find_server(node.name).channel for node in self.plan.nodes]
        with ThreadPoolExecutor(max_workers=len(channels)) as pool:
            return list(pool.map(lambda channel, argv: execute(channel, argv, SECONDS), channels, commands))


def derive_shape(plan: Plan, asked: LabShape) -> LabShape:
    """The lab for a Fabric. Raises UnfitError where emulated servers cannot be what it describes."""
    _refuse(plan)
    first = plan.nodes[0]
    owns = [port.v4 for port in first.ports if port.v4 is not None and port.v4.gateway]
    gateways = [Gateway(own.gateway, own.subnet.base, own.prefix) for own in owns]
    return msgspec.structs.replace(
        asked,
        servers=len(plan.nodes),
        rails=len(first.ports),
        leaves=[port.leaf for port in first.ports],
        gateways=gateways if len(gateways) == len(first.ports) else [],
    )


def _refuse(plan: Plan) -> None:
    names = [node.name for node in plan.nodes]
    shape = LabShape(servers=len(names), rails=len(plan.nodes[0].ports))
    wrong = find_problems(shape)
    if wrong:
        raise UnfitError(f"this Fabric cannot be emulated: {'; '.join(wrong)}")
    if names != shape.list_servers():
        raise UnfitError(
            f"emulated servers are called {', '.join(shape.list_servers())}, and the Fabric has {names[0]}"
        )
    if plan.common.vfs > VFS:
        raise UnfitError(f"the Fabric wants {plan.common.vfs} VFs of a port; an emulated NIC has {VFS}")


def run_phases(here: lab.VmLab, plan: Plan, fabric: bytes, booted: Phase, tell: ReportPhase) -> tuple[Phase, ...]:
    """Go through all phases on servers that have just come up; `booted` is the phase that brought them up."""
    course = begin_run(here, plan, fabric, booted, tell)
    course.run_phase("factory", lambda: check_factory_state(course))
    course.run_phase("apply", lambda: check_apply(course))
    course.run_phase("reboot", lambda: reboot_servers(course))
    course.run_phase("again", lambda: check_second_apply(course))
    course.run_phase("doctor", lambda: check_doctor(course))
    if plan.common.rdma_mode == "shared" and len(plan.nodes) > 1:
        course.run_phase("pods", lambda: _pods(course))
        course.run_phase("rdma", lambda: _rdma(course, pair_same_rails(plan)))
        course.run_phase("cross", lambda: _rdma(course, pair_cross_rails(plan)))
        course.run_phase("cm", lambda: _cm(course))
    return tuple(course.phases)


def begin_run(here: lab.VmLab, plan: Plan, fabric: bytes, booted: Phase, tell: ReportPhase) -> VmRun:
    """A run of servers that have just come up and now have Fabric and plan."""
    document = msgspec.json.encode(plan_document(plan, plan.nodes))
    for node in plan.nodes:
        for path, text in ((FABRIC, fabric), (PLAN, document)):
            (locate_shared_folder(Path(here.folder), node.name) / Path(path).name).write_bytes(text)
    tell(booted)
    return VmRun(here, plan, tell, [booted])


def _trackbed(*words: str) -> list[str]:
    return [sys.executable, "-m", "trackbed", *words]


def check_factory_state(course: VmRun) -> tuple[str, bool]:
    """That nothing of the plan is there yet."""
    found = [done.output.decode().split() for done in course.run_everywhere(["sh", "-c", _FACTORY])]
    rails = str(course.here.shape.rails)
    fresh = all(words == [rails, "0", rails, "1500", "0", "Y"] for words in found)
    return f"no VFs, MTU 1500, no IOMMU pass-through, shared RDMA mode: {'yes' if fresh else found}", fresh


CommandDocument = tuple[dict[str, Any] | None, str]
"""The document that a command printed; None and its words where it printed none."""


def apply_locally(course: VmRun) -> list[CommandDocument]:
    """What `trackbed apply` says, run on each server."""
    return [_json(done) for done in course.run_everywhere(_trackbed("apply", "--yes", "-f", FABRIC, "-o", "json"))]


def check_apply(course: VmRun, ask: Callable[[VmRun], list[CommandDocument]] = apply_locally) -> tuple[str, bool]:
    """`trackbed apply` on servers as they come from their maker: all is made, and a reboot is asked for."""
    told, wrong = _applied(ask(course))
    if wrong:
        return wrong, False
    made, files, left = [one["applied"] for one in told], [len(one["files"]) for one in told], _left(told)
    ok = not left and all(one["reboot"] for one in told)
    return f"{made} changes, {files} files; asks for a reboot{f'; left: {left}' if left else ''}", ok


def check_second_apply(course: VmRun) -> tuple[str, bool]:
    """`trackbed apply` once more: it changes nothing."""
    told, wrong = _applied(apply_locally(course))
    if wrong:
        return wrong, False
    made, files = [one["applied"] for one in told], [len(one["files"]) for one in told]
    ok = not any((*made, *files)) and not any(one["changes"] for one in told)
    return "nothing to change" if ok else f"changed {made} settings and {files} files again; left: {_left(told)}", ok


def _applied(answers: list[CommandDocument]) -> tuple[list[dict[str, Any]], str]:
    """What each server says of its `trackbed apply`; or why one says nothing."""
    wrong = next((text for answer, text in answers if answer is None), "")
    return [answer for answer, _ in answers if answer is not None], wrong


def _left(told: list[dict[str, Any]]) -> list[str]:
    """What is still different, but for what the next boot brings."""
    return [change["what"] for one in told for change in one["changes"] if not change.get("reboot")]


def reboot_servers(course: VmRun) -> tuple[str, bool]:
    """A real reboot, of all servers at once, until everything that starts with a server has."""
    names = [node.name for node in course.plan.nodes]
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        seconds = list(pool.map(lambda name: lab.reboot_server(course.here, name), names))
    course.run_everywhere(["timeout", f"{SECONDS / 2:.0f}", "systemctl", "is-system-running", "--wait"])
    arguments = course.here.read_state(names[0]).arguments
    return f"{', '.join(f'{one:.0f} s' for one in seconds)}; kernel arguments: {arguments}", True


def check_doctor(course: VmRun) -> tuple[str, bool]:
    """Every check of every server passes."""
    answers = [_json(done) for done in course.run_everywhere(_trackbed("doctor", "--all", "-f", PLAN, "-o", "json"))]
    wrong = next((text for answer, text in answers if answer is None), None)
    if wrong is not None:
        return wrong, False
    found = [one for answer, _ in answers if answer is not None for one in answer["findings"]]
    bad = [f"{one['node']}: {one['id']} {one['verdict']} ({one.get('evidence')})" for one in found if _bad(one)]
    return f"{len(found) - len(bad)} of {len(found)} checks passed{''.join(f'; {one}' for one in bad)}", not bad


def _bad(finding: dict[str, Any]) -> bool:
    return bool(finding["verdict"] != "pass")


def _pods(course: VmRun) -> tuple[str, bool]:
    done = course.run_each([["sh", "-c", pods.render_pods_script(node)] for node in course.plan.nodes])
    wrong = [_words(one) for one in done if one.status]
    count = sum(len(node.ports) for node in course.plan.nodes)
    return (wrong[0], False) if wrong else (f"{count} namespaces with a VF and a soft-RoCE device each", True)


Pair = tuple[PortPlan, PortPlan]
"""Who writes, and to whom: a port of the first server and one of the second."""


def pair_same_rails(plan: Plan) -> list[Pair]:
    """Each rail with itself."""
    first, second = plan.nodes[:2]
    return list(zip(first.ports, second.ports, strict=True))


def pair_cross_rails(plan: Plan) -> list[Pair]:
    """Each rail with the next one."""
    first, second = plan.nodes[:2]
    return [(port, second.ports[(at + 1) % len(second.ports)]) for at, port in enumerate(first.ports)]


def _rdma(course: VmRun, pairs: list[Pair]) -> tuple[str, bool]:
    """RDMA writes between all pairs; whether as many arrive as the plan says."""
    due = [pair for pair in pairs if pair[0].rail == pair[1].rail or course.plan.common.cross_rail == "routed"]
    listen = "".join(pods.render_bandwidth_server(to, number) for number, (_, to) in enumerate(pairs))
    second = course.here.find_server(course.plan.nodes[1].name).channel
    execute(second, ["setsid", "-f", "sh", "-c", listen], SECONDS)
    send = [pods.render_bandwidth_client(port, to, number) for number, (port, to) in enumerate(pairs)]
    arrived = [float(known[1]) for one in _sent(course, send) if (known := _FIGURES.search(one))]
    words = f"{len(arrived)} of {len(pairs)} pairs, {len(due)} planned"
    if arrived:
        words += f"; {min(arrived):.1f} to {max(arrived):.1f} MB/s each"
    return words, len(arrived) == len(due)


def _cm(course: VmRun) -> tuple[str, bool]:
    pairs = pair_same_rails(course.plan)
    second = course.here.find_server(course.plan.nodes[1].name).channel
    execute(second, ["setsid", "-f", "sh", "-c", "".join(pods.render_cm_server(to) for _, to in pairs)], SECONDS)
    done = _sent(course, [f"{pods.render_cm_client(port, to).strip()} && echo connected" for port, to in pairs])
    good = sum("connected" in one for one in done)
    return f"rping over {good} of {len(pairs)} rails", good == len(pairs)


def _sent(course: VmRun, commands: Iterable[str]) -> list[str]:
    """What each command on the first server said, all at once; given a moment for the other end to listen."""
    first = course.here.find_server(course.plan.nodes[0].name).channel
    tried = [f"for try in 1 2 3 4 5; do sleep 1; {shlex.join(['sh', '-c', one])} && break; done" for one in commands]
    with ThreadPoolExecutor(max_workers=len(tried)) as pool:
        done = list(pool.map(lambda text: execute(first, ["sh", "-c", text], SECONDS), tried))
    return [(one.output + one.errors).decode(errors="replace") for one in done]


def _json(done: CommandResult) -> CommandDocument:
    try:
        return msgspec.json.decode(done.output, type=dict[str, Any]), ""
    except msgspec.DecodeError:
        return None, _words(done)


def _words(done: CommandResult) -> str:
    said = (done.errors or done.output).decode(errors="replace").strip().splitlines()
    return f"status {done.status}: {' / '.join(said[-4:])}"
