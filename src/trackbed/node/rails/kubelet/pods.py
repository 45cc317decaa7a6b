"""The devices that the kubelet allocated to a pod, read from its pod-resources API (v1) during the pod's network setup.

Get is called first. List is the fallback for a kubelet before 1.34, or without the feature gate
KubeletPodResourcesGet.
"""

import re
from pathlib import Path
from typing import Final

import grpc

from trackbed.node.rails.choice import is_device_id
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.kubelet import messages
from trackbed.node.rails.kubelet.messages import DOMAIN, GrantedDevices
from trackbed.node.rails.kubelet.wire import WireError

_SERVICE: Final = "/v1.PodResourcesLister/"
_SECONDS: Final = 5.0
_RAIL: Final = re.compile(rf"{re.escape(DOMAIN)}/rail(0|[1-9][0-9]{{0,3}})")
_MAX_REASON: Final = 300
_LONGEST_LIST: Final = 16 << 20
"""Bytes of the longest answer; the agent has 200 MiB of memory.

Users decide how many containers their pods have. Eight pods of 9,000 make a List longer than the 4 MiB that gRPC takes
by default, and no pod of the node would start.
"""
_ONE_DEVICE: Final = "all its containers share one interface on a rail: ask for 1, in one container only"
_GET_UNSUPPORTED: Final = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN}
"""Returned by a kubelet without Get, or with Get disabled ("PodResources API Get method disabled")."""


class PodResources:
    """Client of one kubelet's pod-resources API. It is thread-safe."""

    def __init__(self, socket: Path) -> None:
        """`socket`: pod-resources/kubelet.sock in the kubelet's folder."""
        self._socket = socket
        channel = grpc.insecure_channel(f"unix:{socket}", [("grpc.max_receive_message_length", _LONGEST_LIST)])
        self._get: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}Get")
        self._list: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}List")

    def read_devices(self, namespace: str, pod_name: str) -> dict[int, str]:
        """Return the id of the pod's device on each rail; empty if the pod requested no rails.

        Raises:
            CniError: the kubelet does not answer, or it allocated two devices of one rail.
        """
        try:
            return select_rail_devices(self._read_granted_devices(namespace, pod_name))
        except (grpc.RpcError, WireError) as error:
            reason = error.details() if isinstance(error, grpc.RpcError) else str(error)
            message = f"the kubelet does not say which rails pod {namespace}/{pod_name} has: {_to_line(reason)}"
            raise CniError(Code.TRY_AGAIN, message, f"it was asked at {self._socket}") from error

    def _read_granted_devices(self, namespace: str, pod_name: str) -> tuple[GrantedDevices, ...]:
        try:
            request = messages.build_get_request(namespace, pod_name)
            return messages.parse_get_response(self._get(request, timeout=_SECONDS), namespace, pod_name)
        except grpc.RpcError as error:
            if error.code() not in _GET_UNSUPPORTED:
                raise
        granted = messages.parse_list_response(self._list(b"", timeout=_SECONDS), namespace, pod_name)
        if granted is None:
            raise WireError("it does not list the pod")
        return granted


def select_rail_devices(granted: tuple[GrantedDevices, ...]) -> dict[int, str]:
    """Return the id of a pod's device on each rail, in the order of rails.

    Raises:
        CniError: a rail has several, or one that is no device of it.
    """
    by_rail: dict[int, str] = {}
    for devices in granted:
        rail = _RAIL.fullmatch(devices.resource)
        if rail and devices.ids:
            if len(devices.ids) > 1 or int(rail[1]) in by_rail:
                raise CniError(Code.CONFIG, f"the pod has more than one {devices.resource}", _ONE_DEVICE)
            if not is_device_id(devices.ids[0], int(rail[1])):
                message = f"the kubelet names a device of {devices.resource} that the agent does not offer"
                raise CniError(Code.CONFIG, message, "delete the pod; if it comes again, restart the kubelet")
            by_rail[int(rail[1])] = devices.ids[0]
    return dict(sorted(by_rail.items()))


def _to_line(reason: str | None) -> str:
    """Return a reason from the kubelet as one short line for a runtime's log."""
    text = "".join(character if character.isprintable() else " " for character in reason or "it gave no reason")
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."
