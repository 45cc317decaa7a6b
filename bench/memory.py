"""The memory of an agent that serves a kubelet and has 100 pods of 8 macvlan rails each."""

import time
from pathlib import Path
from typing import Final

from bench import runtime, trackbed_case, whole
from bench.node import RAILS, Node, Pod, pods
from trackbed.node.rails.client import read_status

PODS: Final = 100
_PREFIX: Final = 21  # room for 100 pods on each of 8 rails
_WATCHED_S: Final = 30


def memory(made: Node) -> dict[str, float]:
    """Return the resident memory of the agent in MB: without pods, with 100 pods, and at most."""
    kubelet = whole.start_kubelet(trackbed_case.RUN / "kubelet-memory", "macvlan")
    try:
        agent = trackbed_case.start_agent(made, trackbed_case.Wanted("memory", "macvlan", kubelet.folder, _PREFIX))
        try:
            return _measure_agent(made, agent)
        finally:
            trackbed_case.stop(agent)
    finally:
        whole.stop_kubelet(kubelet)


def _measure_agent(made: Node, agent: trackbed_case.Agent) -> dict[str, float]:
    empty = _status_mb(agent, "VmRSS")
    with pods(made, PODS) as running:
        for pod in running:
            _attach(agent, pod)
        _wait_until_settled(agent)
        full = _status_mb(agent, "VmRSS")
    return {"without pods": empty, f"with {PODS} pods": full, "at most": _status_mb(agent, "VmHWM")}


def _attach(agent: trackbed_case.Agent, pod: Pod) -> None:
    config = {"cniVersion": whole.CNI_VERSION, "name": "pods", "type": "trackbed"}
    runtime.call([str(agent.executable)], agent.executable.parent, pod, ("ADD", whole.ETH0), config)


def _wait_until_settled(agent: trackbed_case.Agent) -> None:
    """Wait until the agent has probed all addresses. Raises RuntimeError unless it holds all pods."""
    deadline = time.monotonic() + _WATCHED_S
    while (status := read_status(agent.socket))["watched"] and time.monotonic() < deadline:
        time.sleep(0.5)
    held = sum(len(attachment["ports"]) for attachment in status["attachments"])
    if held != PODS * RAILS:
        raise RuntimeError(f"the agent holds {held} rails of {PODS * RAILS}")


def _status_mb(agent: trackbed_case.Agent, field: str) -> float:
    lines = Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return int(kib) * 1024 / 1e6
