"""Today's delegates: one plugin for each rail, one after another, as Multus calls them.

Multus adds the networks of a pod in order and deletes them in reverse, each delegate a program of its own that starts
the IPAM program in turn. What Multus itself costs (its start, the API server) is left out, so this is its lower bound.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench import runtime
from bench.node import Calls, Node, Pod

CNI_VERSION: Final = "1.0.0"

Config = dict[str, object]


def macvlan(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """Prepare pods with a macvlan on each rail's parent, in bridge mode, with an address from host-local."""
    rails = macvlan_rails(node, node.state / "host-local-macvlan")
    return lambda pod: _calls(folder, rails, pod)


def move(folder: Path, node: Node) -> Callable[[Pod], Calls]:
    """Prepare pods whose own ports host-device moves, with addresses from host-local."""
    store = node.state / "host-local-move"
    return lambda pod: _calls(folder, move_rails(node, store, pod.slot), pod)


def macvlan_rails(node: Node, store: Path) -> list[Config]:
    """Return a network for each rail, the same for all pods."""
    configs = ({"type": "macvlan", "master": parent, "mode": "bridge"} for parent in node.parents)
    return [_config("macvlan", 0, rail, config, store) for rail, config in enumerate(configs)]


def move_rails(node: Node, store: Path, slot: int) -> list[Config]:
    """Return a network for each rail of the pod in a slot."""
    configs = ({"type": "host-device", "device": port} for port in node.ports[slot])
    return [_config("move", slot, rail, config, store) for rail, config in enumerate(configs)]


def network(mode: str, slot: int, rail: int) -> str:
    """Return the name of a rail's network."""
    return f"macvlan-{rail}" if mode == "macvlan" else f"move-{slot}-{rail}"


def _config(mode: str, slot: int, rail: int, config: Mapping[str, object], store: Path) -> Config:
    return {"cniVersion": CNI_VERSION, "name": network(mode, slot, rail), **config, "ipam": _host_local(store, rail)}


def _calls(folder: Path, rails: list[Config], pod: Pod) -> Calls:
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
