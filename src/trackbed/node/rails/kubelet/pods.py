"""Which rails the kubelet gave to a pod: one question to its pod-resources API (v1) while the pod's network is set up.

Get is asked first; a kubelet before 1.34, or one without it (feature gate KubeletPodResourcesGet), is asked for the
whole List.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import grpc

from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.kubelet import messages
from trackbed.node.rails.kubelet.messages import DOMAIN, GrantedDevices
from trackbed.node.rails.kubelet.wire import WireError

_SERVICE: Final = "/v1.PodResourcesLister/"
_SECONDS: Final = 5.0
_RAIL: Final = re.compile(rf"{re.escape(DOMAIN)}/rail(0|[1-9]\d{{0,3}})")
_ONE: Final = "all its containers share one interface on a rail: ask for 1, in one container only"
_WITHOUT_GET: Final = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN}
"""Of a kubelet that has no Get, or has it switched off ("PodResources API Get method disabled")."""


class PodResources:
    """Asks one kubelet. Safe for use by several threads."""

    def __init__(self, socket: Path) -> None:
        """`socket`: pod-resources/kubelet.sock in the kubelet's folder."""
        self._socket = socket
        channel = grpc.insecure_channel(f"unix:{socket}")
        self._get: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}Get")
        self._list: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{_SERVICE}List")

    def read_devices(self, namespace: str, name: str) -> dict[int, str]:
        """The device of each rail that a pod was given; empty for one that asked for none.

        Raises CniError: the kubelet cannot say, or the pod was given two devices of one rail.
        """
        try:
            return select_rail_devices(self._given(namespace, name))
        except grpc.RpcError as error:
            raise _unknown(self._socket, namespace, name, str(error.details())) from error
        except WireError as error:
            raise _unknown(self._socket, namespace, name, str(error)) from error

    def _given(self, namespace: str, name: str) -> tuple[GrantedDevices, ...]:
        try:
            return messages.parse_get_response(self._get(messages.build_get_request(namespace, name), timeout=_SECONDS))
        except grpc.RpcError as error:
            if error.code() not in _WITHOUT_GET:
                raise
        found = messages.parse_list_response(self._list(b"", timeout=_SECONDS), namespace, name)
        if found is None:
            raise WireError("it does not list the pod")
        return found


def select_rail_devices(given: tuple[GrantedDevices, ...]) -> dict[int, str]:
    """The devices of rails among what a pod's containers were given, by rail in order. CniError if a rail has two."""
    found: dict[int, str] = {}
    for one in given:
        rail = _RAIL.fullmatch(one.resource)
        if rail and one.ids:
            if len(one.ids) > 1 or int(rail[1]) in found:
                raise CniError(Code.CONFIG, f"the pod has more than one {one.resource}", _ONE)
            found[int(rail[1])] = one.ids[0]
    return dict(sorted(found.items()))


def _unknown(socket: Path, namespace: str, name: str, why: str) -> CniError:
    message = f"the kubelet does not say which rails pod {namespace}/{name} has: {why}"
    return CniError(Code.TRY_AGAIN, message, f"it was asked at {socket}")
