"""Whole pods by thin Multus, which queries the API server, then calls ptp and a plugin for each rail.

Pods and networks are created before; what Multus does with them is timed.
"""

import functools
import hashlib
import itertools
import json
import lzma
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import delegates, runtime, whole
from bench.cluster import Cluster
from bench.node import RAILS, Calls, Node, Pod

VARIABLE: Final = "TRACKBED_PEERS"
"""Environment variable with the folder of multus.xz."""

Case = tuple[Path, Path]
"""The program, and the folder of its plugins."""


def program(cache: Path) -> Path:
    """Unpack Multus into the cache once; return its path. Raises OSError or LZMAError if it is absent."""
    named = os.environ.get(VARIABLE)
    if not named:
        raise FileNotFoundError(f"{VARIABLE} names no folder with multus.xz")
    packed = (Path(named) / "multus.xz").read_bytes()
    unpacked = cache / f"multus-{hashlib.sha256(packed).hexdigest()[:12]}"
    if not unpacked.exists():
        fresh = unpacked.with_suffix(".new")
        fresh.write_bytes(lzma.decompress(packed))
        fresh.chmod(0o755)
        fresh.rename(unpacked)
    return unpacked


def networks(node: Node, cluster: Cluster) -> None:
    """Create the networks of all pods."""
    store = node.state / "host-local-multus"
    made = [delegates.macvlan_rails(node, store)]
    made += [delegates.move_rails(node, store, slot) for slot in range(len(node.ports))]
    for config in itertools.chain.from_iterable(made):
        cluster.network(config)


def pods(programs: Case, node: Node, cluster: Cluster, mode: str) -> Callable[[Pod], Calls]:
    """Prepare pods with eth0 by ptp, and rails in this mode."""
    multus, plugins = programs
    config: dict[str, object] = {
        "cniVersion": whole.CNI_VERSION,
        "name": "multus-cni-network",
        "type": "multus",
        "kubeconfig": str(cluster.kubeconfig),
        "cniDir": str(node.state / "multus"),
        "confDir": str(node.state / "multus.d"),
        "binDir": str(plugins),
        "delegates": [whole.ptp(node)],
    }

    @functools.cache
    def uid(name: str, slot: int) -> str:
        return cluster.pod(name, [delegates.network(mode, slot, rail) for rail in range(RAILS)])

    def prepare(pod: Pod) -> Calls:
        return _calls(multus, plugins, config, replace(pod, uid=uid(pod.name, pod.slot)))

    return prepare


def _calls(multus: Path, plugins: Path, config: dict[str, object], pod: Pod) -> Calls:
    results: list[object] = []

    def add() -> None:
        results[:] = [json.loads(runtime.call([str(multus)], plugins, pod, ("ADD", whole.ETH0), config))]

    def delete() -> None:
        wanted = config | {"prevResult": results[0]}
        runtime.call([str(multus)], plugins, pod, ("DEL", whole.ETH0), wanted)

    return Calls(add, delete)
