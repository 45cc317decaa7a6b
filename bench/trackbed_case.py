"""Trackbed in the benchmark: an agent, and its executable as a runtime would exec it.

Only this file starts and configures Trackbed; the other files use `calls` and `phases`.
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
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.node.rails.client import read_status
from trackbed.node.rails.install import BUILT_EXECUTABLE, install_executable

Mode = Literal["macvlan", "move"]

MODES: Final[tuple[Mode, ...]] = ("macvlan", "move")
RUN: Final = Path("/run")
"""Folder of sockets, whose paths must be short. The benchmark has a private one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An agent to start; `prefix` is the length of its node's prefix for pods on all rails."""

    name: str
    mode: Mode
    kubelet: Path
    prefix: int = 24


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent, its socket, and the executable that calls it."""

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


def executables(folder: Path) -> tuple[Path, Path]:
    """Return the CNI executable of images, and the one in Python that every installation has."""
    for kind in ("built", "python"):
        (folder / kind).mkdir()
    nobody, python = RUN / "nobody.sock", Path(os.path.realpath(sys.executable))
    built = install_executable(folder / "built", nobody, binary=_find_shim())
    return built, install_executable(folder / "python", nobody, python)


@functools.cache
def _find_shim() -> Path:
    return build.build_programs(SHIM, print) / SHIM[0].name if shutil.which("go") else BUILT_EXECUTABLE


def start_agent(node: Node, wanted: Wanted) -> Agent:
    """Start an agent for `node.parents` (macvlan) or `node.ports` (move), and wait until it answers."""
    state = node.state / f"agent-{wanted.name}"
    state.mkdir()
    socket = RUN / f"{wanted.name}.sock"
    (state / "plan.json").write_bytes(encode_node(_plan(node, wanted)))
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
    return Agent(process, socket, install_executable(state, socket, binary=_find_shim()), wanted.mode)


def _plan(node: Node, wanted: Wanted) -> NodePlan:
    """Return a node with 8 rails; for move with 8 rails for each slot, since a pod gets the ports of its slot."""
    loaded = load_fabric(_FABRIC.replace("PREFIX", str(wanted.prefix)).encode(), "bench")
    planned = compute_plan(loaded.fabric, {}).nodes[0]
    if wanted.mode == "macvlan":
        return planned
    names = [name for ports in node.ports for name in ports]
    rails = tuple(
        planned.common.rails[number % RAILS]._replace(rail=number, table=1000 + number) for number in range(len(names))
    )
    ports = tuple(_move_port(planned.ports, number, name) for number, name in enumerate(names))
    common = planned.common._replace(rails=rails, pod_mode="move")
    return planned._replace(ports=ports, common=common)


def _move_port(ports: tuple[PortPlan, ...], number: int, name: str) -> PortPlan:
    port = ports[number % RAILS]
    address = port.v4.with_address(port.v4.address + number // RAILS) if port.v4 else None
    return port._replace(rail=number, netdev=name, v4=address)


def stop(agent: Agent) -> None:
    """Stop the agent; kill it after 10 seconds."""
    agent.process.terminate()
    try:
        agent.process.wait(10)
    except subprocess.TimeoutExpired:
        agent.process.kill()
        agent.process.wait()


def config(agent: Agent, pod: Pod) -> dict[str, object]:
    """Return the network configuration for the executable; as it names rails, no kubelet is queried."""
    rails = list(range(pod.slot * RAILS, (pod.slot + 1) * RAILS)) if agent.mode == "move" else list(range(RAILS))
    return {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", "mode": agent.mode, "rails": rails}


def phases(agent: Agent, pods: int) -> dict[str, list[float]]:
    """Return the microseconds of each phase of the last pods, by command and phase, as the agent reports them."""
    spans: dict[str, list[float]] = {}
    for timing in read_status(agent.socket)["timings"][-2 * pods :]:  # an ADD and a DEL each
        for phase, microseconds in timing["microseconds"].items():
            spans.setdefault(f"{timing['command']} {phase}", []).append(microseconds)
    return spans


def tcp_sockets(agent: Agent) -> int:
    """Return the number of TCP sockets of the agent; without any it queries no API server."""
    folder = Path(f"/proc/{agent.process.pid}")
    tables = [(folder / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    inodes = {f"socket:[{line.split()[9]}]" for table in tables for line in table}
    return sum(str(path.readlink()) in inodes for path in (folder / "fd").iterdir())


def calls(agent: Agent, pod: Pod) -> Calls:
    """Return calls that attach all rails by one exec, and detach them by another."""
    wanted = config(agent, pod)
    result: dict[str, object] = {}

    def add() -> None:
        result["prevResult"] = json.loads(_call(agent, pod, "ADD", wanted))

    def delete() -> None:
        _call(agent, pod, "DEL", wanted | result)

    return Calls(add, delete)


def case(agent: Agent) -> Callable[[Pod], Calls]:
    """Return `calls` for this agent."""
    return functools.partial(calls, agent)


def _call(agent: Agent, pod: Pod, command: str, wanted: Mapping[str, object]) -> bytes:
    return runtime.call([str(agent.executable)], agent.executable.parent, pod, (command, "net1"), wanted)
