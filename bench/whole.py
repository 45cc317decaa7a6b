"""Whole pods of a Kubernetes node: eth0 by ptp, then the rails that the kubelet allocated; and pods without rails.

The plugins are called as by a runtime: one exec each with the result of the previous plugin, for DEL in reverse.
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
    """A running stand-in for the kubelet; `folder` is that of --kubelet."""

    process: subprocess.Popen[str]
    folder: Path

    def calls(self) -> int:
        """Return the number of pod-resources calls so far."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(_line(self.process))


def start_kubelet(folder: Path, mode: str) -> Kubelet:
    """Start a stand-in whose pods get rails in this mode, and wait until it serves. Raises RuntimeError if it ends."""
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
    """Kill the stand-in."""
    kubelet.process.kill()
    kubelet.process.communicate()


def ptp(node: Node) -> dict[str, object]:
    """Return the configuration of eth0: a veth pair, an address from host-local, a default route."""
    ranges = {"ranges": [[{"subnet": "172.19.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    ipam = {"type": "host-local", "dataDir": str(node.state / "host-local-eth0"), **ranges}
    return {"cniVersion": CNI_VERSION, "name": "pods", "type": "ptp", "mtu": 1500, "ipam": ipam}


def eth0(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """Prepare pods with eth0 alone."""
    return functools.partial(_chain, ((str(folder / "ptp"), ptp(node)),), folder, None)


def trackbed(folder: Path, node: Node, agent: Agent) -> Callable[[Pod], Calls]:
    """Prepare pods with eth0 and rails."""
    plugins = ((str(folder / "ptp"), ptp(node)), (str(agent.executable), _rails()))
    return functools.partial(_chain, plugins, folder, None)


def skip_rails(agent: Agent) -> Callable[[Pod], Calls]:
    """Prepare pods without rails: Trackbed alone is called, with a made-up result for eth0."""
    result = {"cniVersion": CNI_VERSION, "interfaces": [{"name": ETH0, "sandbox": "/run/netns/pod"}]}
    result["ips"] = [{"address": "172.19.0.2/24", "interface": 0}]
    calls = functools.partial(_chain, ((str(agent.executable), _rails()),), agent.executable.parent, result)
    return lambda pod: calls(replace(pod, namespace=_WITHOUT_RAILS))


def _rails() -> dict[str, object]:
    return {"cniVersion": CNI_VERSION, "name": "pods", "type": "trackbed"}


Plugin = tuple[str, Mapping[str, object]]


def _chain(plugins: tuple[Plugin, ...], path: Path, first: Mapping[str, object] | None, pod: Pod) -> Calls:
    """Return calls of a chain; `first` is the result of plugins that are not called."""
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
