"""A node's agent and its pods on a host that has NICs of a model: CNI commands as the agent hears them.

They run in a thread that is in the host's network namespace, and in a mount namespace where /sys is the model's.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.host.places import Host
from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink import netns
from trackbed.node.rails.attacher import Attacher
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.handlers import Handlers
from trackbed.node.rails.journal import Journal
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.store import Store

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _BIND, _REC, _PRIVATE = 0x00020000, 4096, 16384, 1 << 18
_Result = TypeVar("_Result")


class Runtime:
    """Calls the agent's handlers."""

    def __init__(self, node: NodePlan, place: Host, executor: ThreadPoolExecutor) -> None:
        self._executor = executor
        self._folder = place.machine.root.parent
        self.store, self.attacher = self.run(self._start, node)
        self._handlers = Handlers(node, self.store, Conflicts(), self.attacher)

    def _start(self, node: NodePlan) -> tuple[Store, Attacher]:
        store = Store(Journal(self._folder / "state"))
        return store, Attacher(node, store, "boot", None)

    def run(self, action: Callable[..., _Result], *arguments: object) -> _Result:
        """Run something in the agent's thread."""
        return self._executor.submit(action, *arguments).result(60)

    def make_pod(self, name: str) -> Path:
        """Create a pod's network namespace."""
        path = self._folder / name
        self.run(netns.create_netns, path)
        return path

    def end_pod(self, path: Path) -> None:
        """Delete a pod's network namespace."""
        self.run(netns.delete_netns, path)

    def add(self, pod: Path, mode: str) -> dict[str, Any]:
        """Run ADD for all rails."""
        answer: dict[str, Any] = json.loads(self._call("ADD", pod, mode))
        return answer

    def delete(self, pod: Path, mode: str) -> None:
        """Run DEL."""
        self._call("DEL", pod, mode)

    def _call(self, command: str, pod: Path, mode: str) -> bytes:
        config = {"cniVersion": "1.1.0", "name": "rails", "type": "trackbed", "mode": mode}
        request = CniRequest(command, "1.1.0", (pod.name, "net1"), str(pod), "rails", config)
        return self.run(self._handlers.handle, request, Phases(lambda: 0.0))


@contextmanager
def start_runtime(node: NodePlan, place: Host) -> Iterator[Runtime]:
    """Start an agent on the host; it ends with the block."""
    assert isinstance(place.machine.netns, Path)
    sysfs, network = place.machine.root / "sys", os.open(place.machine.netns, os.O_RDONLY)

    def enter() -> None:
        if (
            _LIBC.unshare(_NEWNS)
            or _LIBC.mount(b"none", b"/", None, _REC | _PRIVATE, None)
            or _LIBC.mount(os.fsencode(sysfs), b"/sys", None, _BIND, None)
        ):
            raise OSError(ctypes.get_errno(), "no mount namespace")
        netns.setns(network)

    with ThreadPoolExecutor(1, initializer=enter) as executor:
        runtime = Runtime(node, place, executor)
        try:
            yield runtime
        finally:
            runtime.store.close()
            runtime.attacher.close()
            os.close(network)
