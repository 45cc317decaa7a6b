"""Trackbed as the benchmark calls it: one agent, and its executable as a runtime would exec it.

The only file here that knows how Trackbed is started and configured; the rest sees `calls` and `phases`.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import SHIM

from bench import kernel, runtime
from bench.node import RAILS, Calls, Node, Pod
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.fabric.plan.wire import write_node
from trackbed.node.rails.client import read_status
from trackbed.node.rails.install import BUILT, install

Mode = Literal["macvlan", "move"]

MODES: Final[tuple[Mode, ...]] = ("macvlan", "move")
RUN: Final = Path("/run")
"""Sockets' paths must be short; in the benchmark's namespaces this folder is its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An agent to start: its name, and how many bits of prefix its node has for pods on all rails."""

    name: str
    mode: Mode
    kubelet: Path
    prefix: int = 24


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent, the socket it listens on, and the executable that asks there."""

    process: subprocess.Popen[bytes]
    socket: Path
    executable: Path
    mode: Mode


_FABRIC: Final = """
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: bench}
spec:
  nodes: [{hosts: bench}]
  rails: 8
  mtu: 1500
  rdma: {pathMtu: 1024}
  addressing: {scheme: node-subnet, ipv4: 172.24.0.0/13, ipv4NodePrefix: PREFIX}
"""


def missing() -> str:
    """Why Trackbed cannot be measured; empty when it can."""
    return ""


def executables(folder: Path) -> tuple[Path, Path]:
    """The CNI executable as images have it, and the one in Python that every installation has."""
    for kind in ("built", "python"):
        (folder / kind).mkdir()
    nobody, python = RUN / "nobody.sock", Path(os.path.realpath(sys.executable))
    return install(folder / "built", nobody, built=_built()), install(folder / "python", nobody, python)


@functools.cache
def _built() -> Path:
    return build.build_programs(SHIM, print) / SHIM[0].name if shutil.which("go") else BUILT


def start_agent(node: Node, wanted: Wanted) -> Agent:
    """Start an agent that owns `node.parents` (macvlan) or `node.ports` (move), and wait until it answers."""
    state = node.state / f"agent-{wanted.name}"
    state.mkdir()
    socket = RUN / f"{wanted.name}.sock"
    (state / "plan.json").write_bytes(write_node(_plan(node, wanted)))
    command = [sys.executable, "-m", "trackbed", "agent", "run", "--plan", f"{state}/plan.json"]
    command += ["--state", f"{state}", "--socket", f"{socket}", "--kubelet", f"{wanted.kubelet}"]
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=kernel.die_with_parent,  # noqa: PLW1509 - one prctl call, which takes no lock
        )
    assert process.stdout is not None  # noqa: S101 - it was asked for
    if not process.stdout.readline():
        raise RuntimeError(f"the agent did not start: {(state / 'log').read_text()}")
    return Agent(process, socket, install(state, socket, built=_built()), wanted.mode)


def _plan(node: Node, wanted: Wanted) -> NodePlan:
    """A node with 8 rails; to move, with 8 for each slot: each pod takes the ports of its own slot."""
    loaded = load_fabric(_FABRIC.replace("PREFIX", str(wanted.prefix)).encode(), "bench")
    planned = compute_plan(loaded.fabric, {}).nodes[0]
    if wanted.mode == "macvlan":
        return planned
    names = [name for ports in node.ports for name in ports]
    rails = tuple(
        planned.common.rails[number % RAILS]._replace(rail=number, table=1000 + number) for number in range(len(names))
    )
    ports = tuple(_moved(planned.ports, number, name) for number, name in enumerate(names))
    common = planned.common._replace(rails=rails, pod_mode="move")
    return planned._replace(ports=ports, common=common)


def _moved(ports: tuple[PortPlan, ...], number: int, name: str) -> PortPlan:
    port = ports[number % RAILS]
    own = port.v4.with_address(port.v4.address + number // RAILS) if port.v4 else None
    return port._replace(rail=number, netdev=name, v4=own)


def stop(agent: Agent) -> None:
    """End the agent, for good after 10 seconds."""
    agent.process.terminate()
    try:
        agent.process.wait(10)
    except subprocess.TimeoutExpired:
        agent.process.kill()
        agent.process.wait()


def config(agent: Agent, pod: Pod) -> dict[str, object]:
    """The network configuration on stdin of the executable; one that names rails asks no kubelet."""
    rails = list(range(pod.slot * RAILS, (pod.slot + 1) * RAILS)) if agent.mode == "move" else list(range(RAILS))
    return {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", "mode": agent.mode, "rails": rails}


def phases(agent: Agent, pods: int) -> dict[str, list[float]]:
    """Microseconds the agent spent in each phase of the last pods, by command and phase, as it reports them itself."""
    found: dict[str, list[float]] = {}
    for timing in read_status(agent.socket)["timings"][-2 * pods :]:  # an ADD and a DEL each
        for phase, microseconds in timing["microseconds"].items():
            found.setdefault(f"{timing['command']} {phase}", []).append(microseconds)
    return found


def tcp_sockets(agent: Agent) -> int:
    """How many TCP sockets the agent has: without one it asks no API server."""
    folder = Path(f"/proc/{agent.process.pid}")
    tables = [(folder / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    inodes = {f"socket:[{line.split()[9]}]" for table in tables for line in table}
    return sum(str(path.readlink()) in inodes for path in (folder / "fd").iterdir())


def calls(agent: Agent, pod: Pod) -> Calls:
    """One exec of the executable attaches all rails, one detaches them."""
    wanted = config(agent, pod)
    result: dict[str, object] = {}

    def add() -> None:
        result["prevResult"] = json.loads(_call(agent, pod, "ADD", wanted))

    def delete() -> None:
        _call(agent, pod, "DEL", wanted | result)

    return Calls(add, delete)


def case(agent: Agent) -> Callable[[Pod], Calls]:
    """`calls` for this agent."""
    return functools.partial(calls, agent)


def _call(agent: Agent, pod: Pod, command: str, wanted: Mapping[str, object]) -> bytes:
    return runtime.call([str(agent.executable)], agent.executable.parent, pod, (command, "net1"), wanted)
