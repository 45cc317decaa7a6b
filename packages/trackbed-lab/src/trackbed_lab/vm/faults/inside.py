"""Faults made, mended and looked for inside an emulated server; started there by the lab, one process for many faults.

    python -m trackbed_lab.vm.faults.inside FABRIC NODE break ID
    python -m trackbed_lab.vm.faults.inside FABRIC NODE heal ID
    python -m trackbed_lab.vm.faults.inside FABRIC NODE try [ID ...]

`try` breaks, looks, mends and looks again, fault by fault, and says a line of JSON (Trial) for each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec

from trackbed.doctor.diagnosis import diagnose
from trackbed.doctor.finding import BROKEN
from trackbed.doctor.inspection import Subject, inspect_node
from trackbed.doctor.probes import Timeouts
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.transaction import carriers, record
from trackbed_lab.vm.faults import FAULTS
from trackbed_lab.vm.faults.fault import FaultError, FaultyServer, VmFault

RAIL = 1
"""Where faults are put: neither the first rail nor the last, which a sloppy check would look at alone."""

PATIENCE = Timeouts(reply=1.5, lldp=1.5)
_SETTLE_SECONDS = 30.0
_KEPT = Path("/run/trackbed-lab-faults.json")


class Trial(msgspec.Struct, frozen=True):
    """What came of one fault."""

    id: str
    named: str
    """The first broken thing that doctor named; empty: it found nothing."""
    evidence: str
    after: str
    """What doctor still named when the fault was mended; empty: sound again."""
    seconds: float
    wrong: str = ""
    """Why the fault could not be made or mended."""

    @property
    def ok(self) -> bool:
        """Named first, and sound again afterwards."""
        return self.named == self.id and not self.after and not self.wrong


def main(words: Sequence[str]) -> int:
    """Do what was asked for; 0 if it went well."""
    fabric, name, what, *ids = words
    planned = compute_plan(load_fabric(Path(fabric).read_bytes(), fabric).fabric, {})
    node = next(one for one in planned.nodes if one.name == name)
    server = FaultyServer(node, node.ports[min(RAIL, len(node.ports) - 1)])
    chosen = [fault for fault in FAULTS if not ids or fault.id in ids]
    if what == "try":
        good = [_tried(fault, server, planned) for fault in chosen]
        return 0 if all(good) else 1
    try:
        _one(what, chosen, server)
    except (FaultError, OSError, TimeoutExpired) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _one(what: str, chosen: Iterable[VmFault], server: FaultyServer) -> None:
    for fault in chosen:
        if what == "break":
            fault.inject(server)
            _KEPT.write_bytes(msgspec.json.encode({str(path): content for path, content in server.kept.items()}))
        else:
            kept = msgspec.json.decode(_KEPT.read_bytes(), type=dict[str, bytes | None]) if _KEPT.exists() else {}
            server.kept = {Path(path): content for path, content in kept.items()}
            _healed(fault, server)


def _healed(fault: VmFault, server: FaultyServer) -> None:
    """Mend it, wait for the ports, and count from now: the carriers that were lost meanwhile are the fault's."""
    fault.heal(server)
    ports = [port.netdev for port in server.node.ports]
    end = time.monotonic() + _SETTLE_SECONDS
    while not all(map(_settled, ports)):
        if time.monotonic() > end:
            raise FaultError(f"a port has not settled {_SETTLE_SECONDS:.0f} s after the fault was mended")
        time.sleep(0.2)
    machine = Machine(Path("/"))
    carriers.save(machine, frozenset(ports), record.folder(machine))


def _settled(port: str) -> bool:
    """Whether a port has carrier, and networkd is done with it: until then it puts back what a fault takes away."""
    folder = Path("/sys/class/net", port)
    state = Path("/run/systemd/netif/links", (folder / "ifindex").read_text().strip())
    idle = not state.exists() or "ADMIN_STATE=configuring" not in state.read_text()
    return idle and (folder / "operstate").read_text() == "up\n"


def _tried(fault: VmFault, server: FaultyServer, planned: Plan) -> bool:
    began, wrong, named, evidence, after = time.monotonic(), "", "", "", ""
    try:
        fault.inject(server)
        named, evidence = _named(server.node, planned)
    except (FaultError, OSError, TimeoutExpired) as error:
        wrong = str(error)
    try:
        _healed(fault, server)
        after, _ = _named(server.node, planned)
    except (FaultError, OSError, TimeoutExpired) as error:
        wrong = wrong or f"not mended: {error}"
    trial = Trial(fault.id, named, evidence, after, time.monotonic() - began, wrong)
    sys.stdout.write(msgspec.json.encode(trial).decode() + "\n")
    sys.stdout.flush()
    return trial.ok


def _named(node: NodePlan, planned: Plan) -> tuple[str, str]:
    """What doctor names first, and what it saw."""
    first = diagnose([inspect_node(Subject(Machine(Path("/")), node), planned, PATIENCE)]).first
    return (first.id, first.evidence) if first is not None and first.verdict in BROKEN else ("", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
