#!/usr/bin/env python3
"""A stand-in for the kubelet, as a separate process: `bench/kubelet.py DIR MODE`.

It accepts registrations of device plugins in DIR and watches their devices, as a kubelet does. Pod-resources (Get)
returns the devices of a pod: in namespace `bench` one of each rail, by the slot at the end of the pod's name
(pod-1f00-3 has rail0-3 to rail7-3, or for move the ports rail24 to rail31); elsewhere none. Each line on stdin is
answered with the number of pod-resources calls so far. It ends at the end of stdin.
"""

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.node import NAMESPACE, RAILS  # found by the line above
from trackbed.node.rails.kubelet import messages, wire


class Kubelet:
    """The services; `calls` is the number of pod-resources calls."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        self._mode = mode
        self._watchers = ThreadPoolExecutor()
        self._lock = threading.Lock()
        self.calls = 0

    def register(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        """Handle Registration.Register."""
        self._watchers.submit(self._watch, wire.get_last_string(wire.parse_fields(request), 2))
        return b""

    def _watch(self, endpoint: str) -> None:
        with grpc.insecure_channel(f"unix:{self._folder}/device-plugins/{endpoint}") as channel:
            watch: Any = channel.unary_stream(f"/{messages.VERSION}.DevicePlugin/ListAndWatch")
            for _ in watch(b""):
                pass

    def get(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        """Handle PodResourcesLister.Get."""
        self._count()
        fields = wire.parse_fields(request)
        name, namespace = wire.get_last_string(fields, 1), wire.get_last_string(fields, 2)
        allocation = self._devices(int(name.rpartition("-")[2])) if namespace == NAMESPACE else {}
        devices = [wire.encode_message((1, resource), (2, device)) for resource, device in allocation.items()]
        container = wire.encode_message((1, "main"), *wire.expand_repeated_field(2, devices))
        return wire.encode_message((1, wire.encode_message((1, name), (2, namespace), (3, container))))

    def list(self, _: bytes, __: grpc.ServicerContext) -> bytes:
        """Handle PodResourcesLister.List, which should not be called."""
        self._count()
        return b""

    def _count(self) -> None:
        with self._lock:
            self.calls += 1

    def _devices(self, slot: int) -> dict[str, str]:
        if self._mode == "move":
            return {f"{messages.DOMAIN}/rail{rail}": f"rail{rail}" for rail in range(slot * RAILS, (slot + 1) * RAILS)}
        return {f"{messages.DOMAIN}/rail{rail}": f"rail{rail}-{slot}" for rail in range(RAILS)}


def main() -> None:
    """Serve until stdin ends."""
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    kubelet = Kubelet(folder, mode)
    places = {"pod-resources": ("v1.PodResourcesLister", {"Get": kubelet.get, "List": kubelet.list})}
    if mode != "move":  # that agent has the ports of ten pods as rails: no node has 80, nor device plugins for them
        places["device-plugins"] = f"{messages.VERSION}.Registration", {"Register": kubelet.register}
    servers = [_server(folder / name, *service) for name, service in places.items()]
    print("ready", flush=True)
    for _ in sys.stdin:
        print(kubelet.calls, flush=True)
    for server in servers:
        server.stop(None)


def _server(folder: Path, service: str, methods: Mapping[str, Any]) -> grpc.Server:
    folder.mkdir(parents=True)
    server = grpc.server(ThreadPoolExecutor(4))
    handlers: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    server.start()
    return server


if __name__ == "__main__":
    main()
