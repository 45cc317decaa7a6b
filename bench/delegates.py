"""Today's delegates: one plugin for each rail, one after another, as Multus calls them.

Multus adds the networks of a pod in order and deletes them in reverse, each delegate a program of its own that starts
the IPAM program in turn. What Multus itself costs (its start, the API server) is left out, so this is its lower bound.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench import runtime
from bench.node import RAILS, Calls, Node, Pod

CNI_VERSION: Final = "1.0.0"

Configure = Callable[[Pod, int], dict[str, object]]


def macvlan(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """Each rail: macvlan in bridge mode on the rail's parent, address from host-local."""

    def conf(_: Pod, rail: int) -> dict[str, object]:
        return {"type": "macvlan", "master": node.parents[rail], "mode": "bridge"}

    return functools.partial(_calls, folder, node.state / "host-local-macvlan", conf)


def move(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """Each rail: host-device moves the pod's own ready port, address from host-local."""

    def conf(pod: Pod, rail: int) -> dict[str, object]:
        return {"type": "host-device", "device": node.ports[pod.slot][rail]}

    return functools.partial(_calls, folder, node.state / "host-local-move", conf)


def _calls(folder: Path, store: Path, conf: Configure, pod: Pod) -> Calls:
    rails = [
        {"cniVersion": CNI_VERSION, "name": f"rail{rail}", **conf(pod, rail), "ipam": _host_local(store, rail)}
        for rail in range(RAILS)
    ]
    results: list[object] = []

    def add() -> None:
        results[:] = [json.loads(_call(folder, pod, "ADD", rail, config)) for rail, config in enumerate(rails)]

    def delete() -> None:
        for rail, config in reversed(list(enumerate(rails))):
            _call(folder, pod, "DEL", rail, config | {"prevResult": results[rail]})

    return Calls(add, delete)


def _host_local(store: Path, rail: int) -> dict[str, object]:
    return {
        "type": "host-local",
        "dataDir": str(store),
        "ranges": [[{"subnet": f"172.20.{rail}.0/24", "gateway": f"172.20.{rail}.1"}]],
        "routes": [{"dst": f"172.21.{rail}.0/24"}],
    }


def _call(folder: Path, pod: Pod, command: str, rail: int, config: Mapping[str, object]) -> bytes:
    return runtime.call([str(folder / str(config["type"]))], folder, pod, (command, f"net{rail + 1}"), config)
