"""A kubelet's side of both APIs, for what a real one cannot be made to do at will: restart at once, lack Get, fail.

The same with a real kubelet: tests/lab/test_cluster.py.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.waiting import wait_until
from trackbed.node.rails.kubelet import wire

SECONDS = 60.0
Lists = queue.Queue[tuple[tuple[str, str], ...]]


@dataclass
class Kubelet:
    """A kubelet; `allocations` has the device ids by resource of each pod, by namespace and name."""

    folder: Path
    allocations: dict[tuple[str, str], Mapping[str, list[str]]] = field(default_factory=dict)
    has_get: bool = True
    registered: queue.Queue[tuple[str, str, str]] = field(default_factory=queue.Queue)
    lists: dict[str, Lists] = field(default_factory=dict)
    watches: list[Any] = field(default_factory=list)
    """The calls of ListAndWatch."""
    watchers: list[threading.Thread] = field(default_factory=list)

    def heard(self) -> tuple[str, str, str]:
        """The next registration: version, endpoint, resource."""
        return self.registered.get(timeout=SECONDS)

    def devices(self, resource: str) -> tuple[tuple[str, str], ...]:
        """The next list of a resource's devices: id and health."""
        return self.lists[resource].get(timeout=SECONDS)

    def register(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        """Registration.Register; the plugin is asked for its devices, as a kubelet does at once."""
        fields = wire.parse_fields(request)
        version, endpoint, resource = (wire.get_last_string(fields, number) for number in (1, 2, 3))
        self.lists[resource] = queue.Queue()
        self.watchers.append(threading.Thread(target=self._watch, args=(endpoint, self.lists[resource]), daemon=True))
        self.watchers[-1].start()
        self.registered.put((version, endpoint, resource))
        return b""

    def _watch(self, endpoint: str, heard: Lists) -> None:
        # gRPC 1.85 never ends a stream that it starts again by itself while the plugin's server stops.
        address = f"unix:{self.folder}/device-plugins/{endpoint}"
        with grpc.insecure_channel(address, [("grpc.enable_retries", 0)]) as channel:
            try:
                watch: Any = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
                call = watch(b"")
                self.watches.append(call)
                for answer in call:
                    listed = [wire.parse_fields(device) for device in wire.get_messages(wire.parse_fields(answer), 1)]
                    heard.put(
                        tuple((wire.get_last_string(device, 1), wire.get_last_string(device, 2)) for device in listed)
                    )
            except grpc.RpcError:
                return  # the plugin or this kubelet has ended

    def end_watches(self) -> bool:
        """Cancel all calls; return whether their threads have ended. A plugin's end does not reach every call."""
        for watch in list(self.watches):
            watch.cancel()
        return not any(watcher.is_alive() for watcher in self.watchers)

    def get(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """PodResourcesLister.Get."""
        if not self.has_get:
            context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        fields = wire.parse_fields(request)
        pod = wire.get_last_string(fields, 2), wire.get_last_string(fields, 1)
        if pod not in self.allocations:
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {pod[1]} in namespace {pod[0]} not found")
        return wire.encode_message((1, self._pod(pod)))

    def list(self, _: bytes, __: grpc.ServicerContext) -> bytes:
        """PodResourcesLister.List."""
        return wire.encode_message(*wire.expand_repeated_field(1, map(self._pod, self.allocations)))

    def _pod(self, pod: tuple[str, str]) -> bytes:
        devices = [
            wire.encode_message((1, name), *wire.expand_repeated_field(2, ids))
            for name, ids in self.allocations[pod].items()
        ]
        return wire.encode_message(
            (1, pod[1]), (2, pod[0]), (3, wire.encode_message((1, "main"), *wire.expand_repeated_field(2, devices)))
        )


@contextmanager
def running(kubelet: Kubelet) -> Iterator[None]:
    """Serve at its sockets; both are new ones, as after a restart."""
    places: dict[str, dict[str, dict[str, Any]]] = {
        "device-plugins": {"v1beta1.Registration": {"Register": kubelet.register}},
        "pod-resources": {"v1.PodResourcesLister": {"Get": kubelet.get, "List": kubelet.list}},
    }
    servers = [_server(kubelet.folder / name, services) for name, services in places.items()]
    try:
        yield
    finally:
        for server in servers:
            server.stop(None).wait(SECONDS)
        wait_until(kubelet.end_watches, "the kubelet's watches end")


def _server(folder: Path, services: Mapping[str, Mapping[str, Any]]) -> grpc.Server:
    folder.mkdir(exist_ok=True)
    (folder / "kubelet.sock").unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(4))
    for service, methods in services.items():
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    server.start()
    return server
