"""The program that injects, heals and checks faults inside an emulated server, where the lab starts it.

    python -m trackbed_lab.vm.faults.inside FABRIC NODE break ID
    python -m trackbed_lab.vm.faults.inside FABRIC NODE heal ID
    python -m trackbed_lab.vm.faults.inside FABRIC NODE try [ID ...]

`try` injects each fault, runs doctor, heals the fault, runs doctor again, and prints a line of JSON (Trial).
"""

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

import msgspec

from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.finding import BROKEN
from trackbed.doctor.inspection import InspectionTarget, inspect_node
from trackbed.doctor.probes import ProbeTimeouts
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.transaction import carriers, record
from trackbed_lab.vm.faults import FAULTS
from trackbed_lab.vm.faults.fault import FaultError, FaultyServer, VmFault

RAIL = 1
"""The rail that faults are injected on: neither the first nor the last, where a careless check might still pass."""

TIMEOUTS = ProbeTimeouts(reply=1.5, lldp=1.5)
_SETTLE_SECONDS = 30.0
_SAVED_FILES = Path("/run/trackbed-lab-faults.json")


class Trial(msgspec.Struct, frozen=True):
    """The result of trying one fault."""

    id: str
    named: str
    """Id of doctor's first finding with the fault; "": none."""
    evidence: str
    after: str
    """Id of doctor's first finding after the fault was healed; "": none."""
    seconds: float
    wrong: str = ""
    """Why the fault could not be injected or healed."""

    @property
    def ok(self) -> bool:
        """Whether doctor named the fault first, and found nothing after it was healed."""
        return self.named == self.id and not self.after and not self.wrong


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    fabric, name, action, *ids = arguments
    fabric_plan = compute_plan(load_fabric(Path(fabric).read_bytes(), fabric).fabric, {})
    node = next(node for node in fabric_plan.nodes if node.name == name)
    server = FaultyServer(node, node.ports[min(RAIL, len(node.ports) - 1)])
    faults = [fault for fault in FAULTS if not ids or fault.id in ids]
    if action == "try":
        results = [_try_fault(fault, server, fabric_plan) for fault in faults]
        return 0 if all(results) else 1
    try:
        _inject_or_heal(action, faults, server)
    except (FaultError, OSError, TimeoutExpired) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _inject_or_heal(action: str, faults: Iterable[VmFault], server: FaultyServer) -> None:
    """Inject or heal faults; the process that injects passes its saved files by a file to the process that heals."""
    for fault in faults:
        if action == "break":
            fault.inject(server)
            files = {str(path): content for path, content in server.saved.items()}
            _SAVED_FILES.write_bytes(msgspec.json.encode(files))
        else:
            content = _SAVED_FILES.read_bytes() if _SAVED_FILES.exists() else b"{}"
            files = msgspec.json.decode(content, type=dict[str, bytes | None])
            server.saved = {Path(path): content for path, content in files.items()}
            _heal_and_settle(fault, server)


def _heal_and_settle(fault: VmFault, server: FaultyServer) -> None:
    """Heal a fault, wait until the ports have settled, and save their carrier counts.

    Checks then count only later carrier losses, because the fault caused the earlier ones.
    """
    fault.heal(server)
    ports = [port.netdev for port in server.node.ports]
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not all(map(_is_settled, ports)):
        if time.monotonic() > deadline:
            raise FaultError(f"a port has not settled {_SETTLE_SECONDS:.0f} s after the fault was mended")
        time.sleep(0.2)
    machine = Machine(Path("/"))
    carriers.save_counts(machine, frozenset(ports), record.find_folder(machine))


def _is_settled(port: str) -> bool:
    """Return whether a port has carrier and networkd has configured it; until then networkd would undo a fault."""
    folder = Path("/sys/class/net", port)
    state = Path("/run/systemd/netif/links", (folder / "ifindex").read_text().strip())
    configured = not state.exists() or "ADMIN_STATE=configuring" not in state.read_text()
    return configured and (folder / "operstate").read_text() == "up\n"


def _try_fault(fault: VmFault, server: FaultyServer, fabric_plan: Plan) -> bool:
    """Inject and heal a fault with doctor run after each; print the trial and return whether it succeeded."""
    start, problem, named, evidence, after = time.monotonic(), "", "", "", ""
    try:
        fault.inject(server)
        named, evidence = _find_first_broken(server.node, fabric_plan)
    except (FaultError, OSError, TimeoutExpired) as error:
        problem = str(error)
    try:
        _heal_and_settle(fault, server)
        after, _ = _find_first_broken(server.node, fabric_plan)
    except (FaultError, OSError, TimeoutExpired) as error:
        problem = problem or f"not mended: {error}"
    trial = Trial(fault.id, named, evidence, after, time.monotonic() - start, problem)
    sys.stdout.write(msgspec.json.encode(trial).decode() + "\n")
    sys.stdout.flush()
    return trial.ok


def _find_first_broken(node: NodePlan, fabric_plan: Plan) -> tuple[str, str]:
    """Run doctor; return id and evidence of the first broken finding, or ("", "")."""
    first = diagnose_nodes([inspect_node(InspectionTarget(Machine(Path("/")), node), fabric_plan, TIMEOUTS)]).first
    return (first.id, first.evidence) if first is not None and first.verdict in BROKEN else ("", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
