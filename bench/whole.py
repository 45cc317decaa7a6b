"""Whole pods of a Kubernetes node: eth0 by ptp, then the rails that the kubelet gave; and pods that it gave none.

As a runtime does for a chain: each plugin one exec, the result of one handed to the next, DEL in reverse.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import kernel, runtime
from bench.node import Calls, Node, Pod
from bench.trackbed_case import Agent

CNI_VERSION: Final = "1.0.0"
ETH0: Final = "eth0"

_PROGRAM: Final = Path(__file__).with_name("kubelet.py")
_END_S: Final = 10
_WITHOUT_RAILS: Final = "without-rails"


@dataclass(frozen=True, slots=True)
class Kubelet:
    """A stand-in that runs; `folder` is what an agent is started with."""

    process: subprocess.Popen[str]
    folder: Path

    def calls(self) -> int:
        """How often pod-resources has been asked so far."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(_line(self.process))


def start_kubelet(folder: Path, mode: str) -> Kubelet:
    """Start a stand-in whose pods get rails in this mode, and wait until it serves. Raises RuntimeError."""
    with Path(f"{folder}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(folder), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=kernel.die_with_parent,  # noqa: PLW1509 - one prctl call, which takes no lock
        )
    _line(process)
    return Kubelet(process, folder)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the stand-in for the kubelet ended with {process.wait(_END_S)}")
    return line


def stop_kubelet(kubelet: Kubelet) -> None:
    """End it."""
    kubelet.process.kill()
    kubelet.process.communicate()


def ptp(node: Node) -> dict[str, object]:
    """The configuration of eth0: a veth pair, an address from host-local, a default route."""
    ranges = {"ranges": [[{"subnet": "172.19.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    ipam = {"type": "host-local", "dataDir": str(node.state / "host-local-eth0"), **ranges}
    return {"cniVersion": CNI_VERSION, "name": "pods", "type": "ptp", "mtu": 1500, "ipam": ipam}


def eth0(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """eth0 alone."""
    return functools.partial(_chain, ((str(folder / "ptp"), ptp(node)),), folder, None)


def trackbed(folder: Path, node: Node, agent: Agent) -> Callable[[Pod], Calls]:
    """eth0, then the rails."""
    plugins = ((str(folder / "ptp"), ptp(node)), (str(agent.executable), _rails()))
    return functools.partial(_chain, plugins, folder, None)


def without_rails(agent: Agent) -> Callable[[Pod], Calls]:
    """Trackbed alone, behind an eth0 that is only told of, for a pod that the kubelet gave no rails."""
    told = {"cniVersion": CNI_VERSION, "interfaces": [{"name": ETH0, "sandbox": "/run/netns/pod"}]}
    told["ips"] = [{"address": "172.19.0.2/24", "interface": 0}]
    calls = functools.partial(_chain, ((str(agent.executable), _rails()),), agent.executable.parent, told)
    return lambda pod: calls(replace(pod, namespace=_WITHOUT_RAILS))


def _rails() -> dict[str, object]:
    return {"cniVersion": CNI_VERSION, "name": "pods", "type": "trackbed"}


Plugin = tuple[str, Mapping[str, object]]


def _chain(plugins: tuple[Plugin, ...], path: Path, first: Mapping[str, object] | None, pod: Pod) -> Calls:
    """`first` is the result of plugins that are not called."""
    results: list[object] = []

    def add() -> None:
        result: object = first
        for program, config in plugins:
            known = {} if result is None else {"prevResult": result}
            result = json.loads(runtime.call([program], path, pod, ("ADD", ETH0), {**config, **known}))
        results[:] = [result]

    def delete() -> None:
        for program, config in reversed(plugins):
            runtime.call([program], path, pod, ("DEL", ETH0), {**config, "prevResult": results[0]})

    return Calls(add, delete)
